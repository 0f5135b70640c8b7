using System.Collections.Immutable;
using BatchKit.Batches;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit;

/// <summary>A buffer's health, with the reasons when it is not healthy.</summary>
/// <param name="Status">Unhealthy when a route cannot send or the buffer has stopped; degraded when some receivers of a route take nothing, when its next hop refuses everything, when the buffer is nearly full, or after a logger, listener, router or <see cref="IBatchTransport.GetDestination"/> has thrown; otherwise healthy.</param>
/// <param name="Reasons">One human-readable sentence for each reason; empty when healthy. They name routes and settings, never handles or secrets.</param>
public sealed record OutputHealth(HealthStatus Status, ImmutableArray<string> Reasons)
{
    // When less of what a route can have is left, the buffer is degraded, so that its operator learns of the backlog before writes fail: one handle alone is refused when a quarter is left.
    private const double DegradedShare = 0.3;

    internal static OutputHealth Of(BufferSettings settings, ImmutableArray<string> failures, ImmutableArray<string> notTaken)
    {
        var (reasons, budget) = (failures.AddRange(notTaken), settings.Budget);
        if (settings.Logger.Faults.Description is { } faults)
            reasons = reasons.Add(faults);
        if (Array.Exists(budget.Parts, static part => part.Free <= part.Most * DegradedShare))
            reasons = reasons.Add($"{budget.Reserved} of {nameof(OutputBufferOptions.MaxBufferedBytes)} ({budget.Capacity}) bytes wait to be sent{budget.DescribeLeft()}.");
        var status = reasons.IsEmpty ? HealthStatus.Healthy : HealthStatus.Degraded;
        return new OutputHealth(failures.IsEmpty ? status : HealthStatus.Unhealthy, reasons);
    }
}

/// <summary>Reports <see cref="OutputBuffer.GetHealth"/> as a health check.</summary>
/// <remarks>
/// <c>AddBatchKit</c> registers one with the tag <c>batchkit</c> for each buffer: <c>batchkit</c>, or <c>batchkit-name</c> for a named buffer.
/// When the buffer is unhealthy, it reports the status that is registered for failures.
/// </remarks>
/// <param name="output">The buffer.</param>
internal sealed class OutputBufferHealthCheck(OutputBuffer output) : IHealthCheck
{
    /// <inheritdoc/>
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        ArgumentNullException.ThrowIfNull(context);
        var health = output.GetHealth();
        var status = health.Status == HealthStatus.Unhealthy ? context.Registration.FailureStatus : health.Status;
        var reasons = health.Reasons.IsEmpty ? null : string.Join(' ', health.Reasons);
        return Task.FromResult(new HealthCheckResult(status, reasons));
    }
}

/// <summary>Reports that a process without a route has no buffer that could fail. Receivers have health checks of their own.</summary>
internal sealed class ReceiveOnlyHealthCheck : IHealthCheck
{
    public Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default) =>
        Task.FromResult(HealthCheckResult.Healthy("It has no route, because this process only receives."));
}
