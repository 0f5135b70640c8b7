using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;

namespace BatchKit.Broadcast;

/// <summary>Starts a transport's listeners with the host, and drains the clients before anything else stops.</summary>
internal sealed class BroadcastHostedService(
    BatchKitBuilder registration, BroadcastTransport transport, OutputBuffer output, IReadOnlyList<BroadcastListener> listeners)
    : IHostedLifecycleService
{
    public Task StartingAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StartAsync(CancellationToken cancellationToken)
    {
        transport.StartMetrics();
        foreach (var listener in listeners)
            await listener.StartAsync(cancellationToken).ConfigureAwait(false);
    }

    public Task StartedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public async Task StoppingAsync(CancellationToken cancellationToken)
    {
        // All stop listening before one is waited for: a handler that blocks its thread must not keep the others from their output.
        await EndsAsync(listeners.Select(listener => listener.StopAsync(cancellationToken)), transport.Options.DrainTimeout, cancellationToken).ConfigureAwait(false);
        await FlushAsync(cancellationToken).ConfigureAwait(false);
        await transport.DrainAsync(cancellationToken).ConfigureAwait(false);
        await EndsAsync(listeners.Select(static listener => listener.DisposeAsync().AsTask()), Timeout.InfiniteTimeSpan, cancellationToken).ConfigureAwait(false);
    }

    public Task StopAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    public Task StoppedAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>Waits for the listeners, at most until the host's time is over: what has not ended then is aborted with the transport.</summary>
    private async Task EndsAsync(IEnumerable<Task> endings, TimeSpan limit, CancellationToken cancellationToken)
    {
        try
        {
            await Task.WhenAll(endings).WaitAsync(limit, transport.Clock, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException)
        {
            // The clients get their goodbye as far as the time allows.
        }
    }

    /// <summary>Waits for pending output, within a limit: a route that is down must not delay the goodbye.</summary>
    private async Task FlushAsync(CancellationToken cancellationToken)
    {
        if (!registration.HasRoute(LocalFirstRouter.LocalRoute))
            return;
        try
        {
            var limit = transport.Options.DrainTimeout;
            await output.FlushAsync(cancellationToken).AsTask().WaitAsync(limit, transport.Clock, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is TimeoutException or OperationCanceledException or OutputDeliveryException or ObjectDisposedException)
        {
            // The buffer has counted what was not delivered, and sends the rest when it stops.
        }
    }
}

/// <summary>Reports whether the transport can accept one more client, and whether its observers throw.</summary>
internal sealed class BroadcastHealthCheck(BroadcastTransport transport) : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var (places, limit) = (transport.Connections.Places, transport.Options.MaxConnections);
        var result = transport.Connections.IsClosed ? new HealthCheckResult(context.Registration.FailureStatus, "The transport has stopped and accepts no connections.")
            : places >= limit ? HealthCheckResult.Degraded($"The limit {nameof(BroadcastOptions.MaxConnections)} ({limit}) is reached; new clients are turned away.")
            : transport.Connections.Lingering >= transport.Options.MaxLingeringHandlers ? HealthCheckResult.Degraded(
                $"The limit {nameof(BroadcastOptions.MaxLingeringHandlers)} ({transport.Options.MaxLingeringHandlers}) is reached: so many handlers still run after their connections have ended; new clients are turned away.")
            : transport.LoggerFaults.Description is { } faults ? HealthCheckResult.Degraded(faults)
            : HealthCheckResult.Healthy();
        return Task.FromResult(result);
    }
}
