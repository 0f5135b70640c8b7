using MassTransit;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.MassTransit;

/// <summary>Says whether a buffer's bus is connected and its receiver receives, and why not. Registered as <c>batchkit-masstransit</c>, or <c>batchkit-masstransit-name</c>.</summary>
internal sealed class MassTransitHealthCheck(BusOwner owner, MassTransitReceiver? receiver) : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var fault = FindBusFault(out var exception) ?? FindReceiverFault();
        return Task.FromResult(fault is null
            ? HealthCheckResult.Healthy($"Connected to {owner.Target}.")
            : new HealthCheckResult(context.Registration.FailureStatus, fault, exception));
    }

    private string? FindBusFault(out Exception? exception)
    {
        exception = null;
        // An application's bus answers for all its endpoints, of which ours is one.
        if (!owner.IsOwn || owner.Connection.Bus is not IBusControl bus || bus.CheckHealth() is not { Status: not BusHealthStatus.Healthy } health)
            return null;
        exception = health.Exception;
        return $"Not connected to {owner.Target}: {exception?.GetBaseException().Message ?? health.Description}";
    }

    private string? FindReceiverFault() => receiver?.Fault is { } fault ? $"Does not receive from {owner.Target}: {fault}" : null;
}
