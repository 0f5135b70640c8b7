using Microsoft.Extensions.Hosting;

namespace BatchKit.Broadcast;

/// <summary>Starts a transport's listeners with the host, and lets the clients go before anything else stops.</summary>
internal sealed class BroadcastHostedService(
    BatchKitBuilder registration, BroadcastTransport transport, OutputBuffer output, IReadOnlyList<BroadcastListener> listeners, TimeProvider? timeProvider)
    : IHostedLifecycleService
{
    public Task StartingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StartAsync(CancellationToken cancellationToken)
    {
        foreach (var listener in listeners)
            await listener.StartAsync(cancellationToken).ConfigureAwait(false);
    }

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StoppingAsync(CancellationToken cancellationToken)
    {
        foreach (var listener in listeners)
            await listener.StopAsync(cancellationToken).ConfigureAwait(false);
        await FlushAsync(cancellationToken).ConfigureAwait(false);
        await transport.DrainAsync(cancellationToken).ConfigureAwait(false);
        foreach (var listener in listeners)
            await listener.DisposeAsync().AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>Waits for the clients' output that is pending: a route that is down may hold up its own output, and not the goodbye.</summary>
    private async Task FlushAsync(CancellationToken cancellationToken)
    {
        if (!registration.HasRoute(LocalFirstRouter.LocalRoute))
            return;
        try
        {
            var limit = transport.Options.DrainTimeout;
            await output.FlushAsync(cancellationToken).AsTask().WaitAsync(limit, timeProvider ?? TimeProvider.System, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException or OutputDeliveryException or ObjectDisposedException)
        {
            // The buffer has counted what was not delivered, and its own stop tries what is left once more.
        }
    }
}
