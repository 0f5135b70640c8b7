namespace BatchKit.Broadcast;

/// <summary>A listener that the host starts and stops.</summary>
internal sealed record ListenerRegistration(BroadcastListenerOptions Options, Func<IServiceProvider, ClientConnection, IConnectionHandler> Handlers);
