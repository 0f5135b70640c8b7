using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Mqtt;

/// <summary>Reports whether a buffer's transport can send and whether its receiver receives. A buffer may have one of them or both.</summary>
internal sealed class MqttHealthCheck(MqttTransport? transport, MqttReceiver? receiver) : IHealthCheck
{
    /// <summary>What loggers and cancellation callbacks of the application threw, in a sentence; null when they threw nothing.</summary>
    public static string? Describe(ObserverFaults? faults) => faults is { Count: > 0 and var count, Last: { } last }
        ? $"Loggers or cancellation callbacks threw {count} times, most recently {FailureText.CauseOf(last).GetType().Name}."
        : null;

    public async Task<HealthCheckResult> CheckHealthAsync(HealthCheckContext context, CancellationToken cancellationToken = default)
    {
        var sending = transport is null ? null : await transport.FindFaultAsync(cancellationToken).ConfigureAwait(false);
        var observers = Describe(transport?.ObserverFaults) ?? Describe(receiver?.ObserverFaults) ?? transport?.CallbackFault ?? receiver?.CallbackFault ?? receiver?.LeaseFault;
        return BrokerHealth.Evaluate(context.Registration.FailureStatus, sending, receiver?.Fault, receiver?.GetStatistics().ConsecutiveFailures ?? 0, observers);
    }
}
