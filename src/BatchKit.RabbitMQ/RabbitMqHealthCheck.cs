using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.RabbitMQ;

/// <summary>Says whether a buffer's transport can send and its receiver receives, whichever of them there are.</summary>
internal sealed class RabbitMqHealthCheck(RabbitMqTransport? transport, RabbitMqReceiver? receiver) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var sending = transport is null ? null : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
        var receiving = receiver?.Fault;
        return sending is null && receiving is null
            ? HealthCheckResult.Healthy()
            : new HealthCheckResult(context.Registration.FailureStatus, Describe(sending, receiving));
    }

    private static string Describe(string? sending, string? receiving) =>
        sending is null ? $"Does not receive. {receiving}"
        : receiving is null ? $"Cannot send. {sending}"
        : sending == receiving ? $"Neither sends nor receives. {sending}"
        : $"Cannot send. {sending} Does not receive. {receiving}";
}
