using System.Globalization;
using System.Net;
using BatchKit.Sessions;

namespace BatchKit.Broadcast.Tests.Sessions;

/// <summary>A game and its TCP clients in one process.</summary>
internal sealed class SessionServer : IAsyncDisposable
{
    public SessionServer(SessionOptions? options = null, int? sendBufferBytes = null)
    {
        // All clients have one address.
        Transport = new BroadcastTransport(new BroadcastOptions { MaxConnections = 20_000, MaxConnectionsPerAddress = 20_000, MaxLingeringHandlers = 20_000, TextInputLimits = null, SendBufferBytes = sendBufferBytes });
        Sessions = new SessionTransport(() => Output!, options);
        Output = new OutputBuffer(
            [new OutputRoute(LocalFirstRouter.LocalRoute, Transport), new OutputRoute(SessionTransport.RouteName, Sessions)], new SessionRouter(Sessions, LocalFirstRouter.LocalRoute));
        Listener = new BroadcastListener(
            Transport, new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, connection => new SessionHandler(connection, Sessions), Output);
    }

    public BroadcastTransport Transport { get; }

    public SessionTransport Sessions { get; }

    public OutputBuffer Output { get; }

    public BroadcastListener Listener { get; }

    /// <summary>Finds the session of a client's token.</summary>
    public Session Find(string token) =>
        Sessions.TryGet(OutputHandle.Connection(node: 0, long.Parse(token.Split('.')[1], CultureInfo.InvariantCulture)), out var session) ? session : throw new InvalidOperationException(token);

    public async ValueTask DisposeAsync()
    {
        await Listener.DisposeAsync();
        await Output.DisposeAsync();
        await Transport.DisposeAsync();
        await Sessions.DisposeAsync();
    }
}
