using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Postgres;

/// <summary>Says whether output is stored and sent on, and a queue's messages are handled, whichever of them there are.</summary>
internal sealed class PostgresHealthCheck(PostgresQueueTransport? transport, PostgresOutbox? outbox, PostgresQueueReceiver? receiver) : IHealthCheck
{
    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var sending = transport is null ? outbox?.Fault : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
        return WayHealth.Judge(context.Registration.FailureStatus, sending, receiver?.Fault, receiver?.GetStatistics().FailuresInARow ?? 0);
    }
}
