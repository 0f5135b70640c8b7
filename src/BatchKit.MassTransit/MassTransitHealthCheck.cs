using MassTransit;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.MassTransit;

/// <summary>Says whether a buffer's bus is connected, and why not. Registered as <c>batchkit-masstransit</c>, or <c>batchkit-masstransit-name</c>.</summary>
internal sealed class MassTransitHealthCheck(BusOwner owner) : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        if (owner.Connection.Bus is not IBusControl bus)
            return Task.FromResult(HealthCheckResult.Healthy("The bus does not say how it is."));

        var health = bus.CheckHealth();
        var status = health.Status switch
        {
            BusHealthStatus.Healthy => HealthStatus.Healthy,
            BusHealthStatus.Degraded => HealthStatus.Degraded,
            _ => context.Registration.FailureStatus,
        };
        var text = status == HealthStatus.Healthy
            ? $"Connected to {owner.Target}."
            : $"Not connected to {owner.Target}: {health.Exception?.GetBaseException().Message ?? health.Description}";
        return Task.FromResult(new HealthCheckResult(status, text, health.Exception));
    }
}
