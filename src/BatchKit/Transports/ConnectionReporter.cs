using BatchKit.Diagnostics;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.Transports;

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

/// <summary>Tells a callback and instruments what happens to one connection: connected once, then lost and restored in turn. For an adapter's <c>ConnectionChanged</c> option.</summary>
/// <remarks>Calls of the callback do not overlap and keep their order. What the callback or a meter listener throws is counted and stops nothing. Thread-safe.</remarks>
public sealed class ConnectionReporter
{
    private readonly ObserverFaults _faults = new();
    private readonly Action<ConnectionChange>? _changed;
    private readonly string _purpose;
    private readonly string _target;
    private readonly ConnectionMetrics? _metrics;

    // Guards the fields below. The callback runs outside it, on the thread that found the queue empty.
    private readonly Lock _lock = new();
    private readonly Queue<ConnectionChange> _changes = new();
    private readonly long[] _counts = new long[Enum.GetValues<BrokerConnectionState>().Length];
    private bool _isReporting;
    private volatile bool _isOpen;
    private bool _wasOpen;
    private bool _isDown;
    private long _lostAt;

    /// <summary>Creates a reporter of a connection that is not open.</summary>
    /// <param name="changed">The application's callback; null for none.</param>
    /// <param name="purpose">See <see cref="ConnectionChange"/>.</param>
    /// <param name="target">See <see cref="ConnectionChange"/>.</param>
    /// <param name="metrics">Has the instruments; null, the default, for none.</param>
    /// <param name="messagingSystem">The tag <c>messaging.system</c> of the instruments: the broker's name in OpenTelemetry's messaging conventions, such as <c>rabbitmq</c>.</param>
    /// <param name="queueName">The tag <c>messaging.destination.name</c> of the instruments; null, the default, for none. Its number of values must be bounded.</param>
    public ConnectionReporter(
        Action<ConnectionChange>? changed, string purpose, string target, ConnectionMetrics? metrics = null, string messagingSystem = "batchkit", string? queueName = null)
    {
        ArgumentNullException.ThrowIfNull(purpose);
        ArgumentNullException.ThrowIfNull(target);
        ArgumentNullException.ThrowIfNull(messagingSystem);
        (_changed, _purpose, _target, _metrics) = (changed, purpose, target, metrics);
        Tags = [new("messaging.system", messagingSystem), new("batchkit.purpose", purpose), new("batchkit.target", target)];
        if (queueName is not null)
            Tags = [.. Tags, new("messaging.destination.name", queueName)];
        metrics?.Add(this);
    }

    /// <summary>What the callback, or a listener of the instruments, has thrown, as a sentence for a health check; null while nothing was thrown.</summary>
    public string? CallbackFault => _faults is { Count: > 0 and var count, Last: { } last }
        ? $"The ConnectionChanged callback of the {_purpose} failed {count} times; the last time it threw {last.GetType().Name}."
        : _metrics?.Fault;

    /// <summary>What the instruments identify the connection by.</summary>
    internal KeyValuePair<string, object?>[] Tags { get; }

    /// <summary>Records that the connection is open.</summary>
    public void Open()
    {
        // The common case, once a statement or send, takes no lock.
        if (_isOpen)
            return;
        TimeSpan? outage;
        lock (_lock)
        {
            if (_isOpen)
                return;
            outage = _wasOpen ? _metrics?.TimeProvider.GetElapsedTime(_lostAt) : null;
            Enqueue(new ConnectionChange(_wasOpen ? BrokerConnectionState.Restored : BrokerConnectionState.Connected, _purpose, _target));
            (_isOpen, _wasOpen, _isDown) = (true, true, false);
        }

        if (outage is { } duration)
            _metrics?.RecordRestore(duration, Tags);
        Report();
    }

    /// <summary>Records that the connection ended, or that an attempt to connect failed. The callback is called only when it was open; the instruments count it as down either way.</summary>
    /// <param name="reason">Why, in a sentence without secrets.</param>
    public void Lose(string reason)
    {
        lock (_lock)
        {
            _isDown = true;
            if (!_isOpen)
                return;
            _isOpen = false;
            _lostAt = _metrics?.TimeProvider.GetTimestamp() ?? 0;
            Enqueue(new ConnectionChange(BrokerConnectionState.Lost, _purpose, _target, reason));
        }

        Report();
    }

    /// <summary>Records that the application closed the connection, or stopped connecting. Nothing is reported, and the instruments count it as closed. When it opens again, it counts as open for the first time.</summary>
    public void Close()
    {
        lock (_lock)
            (_isOpen, _wasOpen, _isDown) = (false, false, false);
    }

    /// <summary>The state that the instruments show.</summary>
    internal ObservedConnection Read()
    {
        lock (_lock)
        {
            var state = _isOpen ? ObservedState.Open : _isDown ? ObservedState.Down : ObservedState.Closed;
            return new ObservedConnection(state, [.. _counts]);
        }
    }

    // Called under the lock.
    private void Enqueue(ConnectionChange change)
    {
        _counts[(int)change.State]++;
        _changes.Enqueue(change);
    }

    private void Report()
    {
        while (TryTake(out var change))
        {
            try
            {
                _changed?.Invoke(change);
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

/// <summary>Combines what a buffer's transport and receiver report about their broker into one health status. For an adapter's health check.</summary>
public static class BrokerHealth
{
    /// <summary>Evaluates whether output is sent and received.</summary>
    /// <param name="failureStatus">The status to report when it is not: that of the registration.</param>
    /// <param name="sending">Why the transport can't send, as a sentence without secrets; null when it can, or there is none.</param>
    /// <param name="receiving">Why the receiver does not receive; null when it does, or there is none.</param>
    /// <param name="consecutiveFailures">How often the next transport behind the receiver has failed consecutively; see <see cref="BatchReceiverStatistics.ConsecutiveFailures"/>.</param>
    /// <param name="observers">A sentence about what works worse than it should although output is sent and received, for instance what the adapter's loggers have thrown; null, the default, for nothing.</param>
    /// <returns>Healthy; degraded when only the transport behind the receiver, or an observer, fails; otherwise the failure status.</returns>
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
