using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit;

/// <summary>Reports <see cref="OutputBuffer.GetHealth"/> as a health check. <c>AddBatchKit</c> registers one as <c>batchkit</c>, or as
/// <c>batchkit-name</c> for a named buffer, with the tag <c>batchkit</c>.</summary>
/// <param name="output">The buffer.</param>
public sealed class OutputBufferHealthCheck(OutputBuffer output) : IHealthCheck
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
