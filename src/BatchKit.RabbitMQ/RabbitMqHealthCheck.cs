using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.RabbitMQ;

/// <summary>Says whether a buffer's transport can send and its receiver receives, whichever of them there are.</summary>
internal sealed class RabbitMqHealthCheck(RabbitMqTransport? transport, RabbitMqReceiver? receiver) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var sending = transport is null ? null : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
        return WayHealth.Judge(context.Registration.FailureStatus, sending, receiver?.Fault, receiver?.GetStatistics().FailuresInARow ?? 0);
    }
}
