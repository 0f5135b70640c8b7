using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Transports;

/// <summary>The health of a buffer's connection over a broker, in a sentence: what its transport and its receiver say of themselves, put together. For an adapter's health check.</summary>
public static class BrokerHealth
{
    /// <summary>Says whether output goes out and comes in.</summary>
    /// <param name="failureStatus">What to report when it does not: the registration's.</param>
    /// <param name="sending">Why the transport can't send, as a sentence without secrets; null when it can, or there is none.</param>
    /// <param name="receiving">Why the receiver does not receive; null when it does, or there is none.</param>
    /// <param name="consecutiveFailures">How often the next transport behind the receiver has failed consecutively; see <see cref="BatchReceiverStatistics.ConsecutiveFailures"/>.</param>
    /// <param name="observers">What works worse than it should although output goes out and comes in, as a sentence: what loggers and other observers of the adapter have thrown, for instance; null, the default, for nothing.</param>
    /// <returns>Healthy; degraded when only what is behind the receiver, or an observer, fails; else the failure status.</returns>
    public static HealthCheckResult Evaluate(HealthStatus failureStatus, string? sending, string? receiving, int consecutiveFailures, string? observers = null)
    {
        if (sending is not null || receiving is not null)
            return new HealthCheckResult(failureStatus, Describe(sending, receiving));
        if (consecutiveFailures > 0)
            return HealthCheckResult.Degraded($"Receives, but the transport behind the receiver failed {consecutiveFailures} consecutive times; the broker keeps what waits.");
        return observers is null ? HealthCheckResult.Healthy() : HealthCheckResult.Degraded(observers);
    }

    private static string Describe(string? sending, string? receiving) =>
        sending is null ? $"Does not receive. {receiving}"
        : receiving is null ? $"Cannot send. {sending}"
        : sending == receiving ? $"Neither sends nor receives. {sending}"
        : $"Cannot send. {sending} Does not receive. {receiving}";
}
