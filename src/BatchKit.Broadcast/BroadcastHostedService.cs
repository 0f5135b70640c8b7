using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast;

/// <summary>Starts a transport's listeners with the host, and lets the clients go before anything else stops.</summary>
internal sealed class BroadcastHostedService(
    BatchKitBuilder registration, BroadcastTransport transport, OutputBuffer output, IReadOnlyList<ListenerRegistration> registrations, IServiceProvider services)
    : IHostedLifecycleService, IAsyncDisposable
{
    private readonly List<BroadcastListener> _listeners = [];

    public IReadOnlyList<BroadcastListener> Listeners => _listeners;

    public Task StartingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StartAsync(CancellationToken cancellationToken)
    {
        foreach (var (options, handlers) in registrations)
        {
            var listener = new BroadcastListener(
                transport, options, connection => handlers(services, connection), output,
                services.GetService<TimeProvider>(), services.GetService<ILogger<BroadcastListener>>());
            _listeners.Add(listener);
            await listener.StartAsync(cancellationToken).ConfigureAwait(false);
        }
    }

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StoppingAsync(CancellationToken cancellationToken)
    {
        foreach (var listener in _listeners)
            await listener.StopAsync(cancellationToken).ConfigureAwait(false);
        await FlushAsync(cancellationToken).ConfigureAwait(false);
        await transport.DrainAsync(cancellationToken).ConfigureAwait(false);
        await DisposeAsync().AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async ValueTask DisposeAsync()
    {
        foreach (var listener in _listeners)
            await listener.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>Waits for the clients' output that is pending: a route that is down may hold up its own output, and not the goodbye.</summary>
    private async Task FlushAsync(CancellationToken cancellationToken)
    {
        if (!registration.HasRoute(LocalFirstRouter.LocalRoute))
            return;
        try
        {
            var timeProvider = services.GetService<TimeProvider>() ?? TimeProvider.System;
            await output.FlushAsync(cancellationToken).AsTask().WaitAsync(transport.Options.DrainTimeout, timeProvider, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException or OutputDeliveryException or ObjectDisposedException)
        {
            // The buffer has counted what was not delivered, and its own stop tries what is left once more.
        }
    }
}
