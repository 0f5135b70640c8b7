using BatchKit.Diagnostics;
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

/// <summary>What happened to a connection to a broker or server.</summary>
public enum BrokerConnectionState
{
    /// <summary>It is open for the first time.</summary>
    Connected = 0,

    /// <summary>It ended, and the application did not end it.</summary>
    Lost = 1,

    /// <summary>It is open again after it was lost.</summary>
    Restored = 2,
}

/// <summary>A change of a connection, as the <c>ConnectionChanged</c> option of each adapter reports it.</summary>
/// <param name="State">What happened.</param>
/// <param name="Purpose">What the connection is for, such as <c>sender</c> or <c>receiver</c>.</param>
/// <param name="Target">The name of the broker or server, without user name and password.</param>
/// <param name="Reason">Why the connection was lost, without secrets; null for the other states.</param>
public readonly record struct ConnectionChange(BrokerConnectionState State, string Purpose, string Target, string? Reason = null);

/// <summary>Tells a callback what happens to one connection: connected once, then lost and restored in turn. For an adapter's <c>ConnectionChanged</c> option.</summary>
/// <remarks>Calls of the callback do not overlap and keep their order. What the callback throws is counted and stops nothing. Thread-safe.</remarks>
/// <param name="changed">The application's callback; null for none.</param>
/// <param name="purpose">See <see cref="ConnectionChange"/>.</param>
/// <param name="target">See <see cref="ConnectionChange"/>.</param>
public sealed class ConnectionReporter(Action<ConnectionChange>? changed, string purpose, string target)
{
    private readonly ObserverFaults _faults = new();

    // Guards the four fields below. The callback runs outside it, on the thread that found the queue empty.
    private readonly Lock _lock = new();
    private readonly Queue<ConnectionChange> _changes = new();
    private bool _isReporting;
    private volatile bool _isOpen;
    private bool _wasOpen;

    /// <summary>What the callback has thrown, as a sentence for a health check; null while it has thrown nothing.</summary>
    public string? CallbackFault => _faults is { Count: > 0 and var count, Last: { } last }
        ? $"The ConnectionChanged callback of the {purpose} failed {count} times; the last time it threw {last.GetType().Name}."
        : null;

    /// <summary>The connection is open.</summary>
    public void Open()
    {
        // The common case, once a statement or send, takes no lock.
        if (_isOpen)
            return;
        lock (_lock)
        {
            if (_isOpen)
                return;
            _isOpen = true;
            _changes.Enqueue(new ConnectionChange(_wasOpen ? BrokerConnectionState.Restored : BrokerConnectionState.Connected, purpose, target));
            _wasOpen = true;
        }

        Report();
    }

    /// <summary>The connection ended. Nothing is reported when it was not open.</summary>
    /// <param name="reason">Why, in a sentence without secrets.</param>
    public void Lose(string reason)
    {
        lock (_lock)
        {
            if (!_isOpen)
                return;
            _isOpen = false;
            _changes.Enqueue(new ConnectionChange(BrokerConnectionState.Lost, purpose, target, reason));
        }

        Report();
    }

    private void Report()
    {
        while (TryTake(out var change))
        {
            try
            {
                changed?.Invoke(change);
            }
            catch (Exception fault)
            {
                _faults.Add(fault);
            }

            lock (_lock)
                _isReporting = false;
        }
    }

    private bool TryTake(out ConnectionChange change)
    {
        lock (_lock)
        {
            change = default;
            if (_isReporting || !_changes.TryDequeue(out change))
                return false;
            _isReporting = true;
            return true;
        }
    }
}
