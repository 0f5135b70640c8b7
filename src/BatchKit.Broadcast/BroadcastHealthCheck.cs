using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Broadcast;

/// <summary>Says whether one more client finds a place.</summary>
internal sealed class BroadcastHealthCheck(BroadcastTransport transport) : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var (places, limit) = (transport.Connections.Places, transport.Options.MaxConnections);
        var result = transport.Connections.IsClosed ? new HealthCheckResult(context.Registration.FailureStatus, "The transport has stopped and lets nobody in.")
            : places >= limit ? HealthCheckResult.Degraded($"All of {nameof(BroadcastOptions.MaxConnections)} ({limit}) places are taken; new clients are turned away.")
            : HealthCheckResult.Healthy();
        return Task.FromResult(result);
    }
}
