using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Mqtt;

/// <summary>Says whether a buffer's transport can send and its receiver receives, whichever of them there are.</summary>
internal sealed class MqttHealthCheck(MqttTransport? transport, MqttReceiver? receiver) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var sending = transport is null ? null : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
        var receiving = receiver?.Fault;
        if (sending is not null || receiving is not null)
            return new HealthCheckResult(context.Registration.FailureStatus, Describe(sending, receiving));
        var failures = receiver?.GetStatistics().FailuresInARow ?? 0;
        return failures == 0
            ? HealthCheckResult.Healthy()
            : HealthCheckResult.Degraded($"Receives, but the transport behind the receiver failed {failures} times in a row; the broker keeps what waits.");
    }

    private static string Describe(string? sending, string? receiving) =>
        sending is null ? $"Does not receive. {receiving}"
        : receiving is null ? $"Cannot send. {sending}"
        : sending == receiving ? $"Neither sends nor receives. {sending}"
        : $"Cannot send. {sending} Does not receive. {receiving}";
}
