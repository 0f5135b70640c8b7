using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>The instruments of the connections that adapters hold to brokers and servers: how many are open or down, how often they changed, and how long they were lost.</summary>
/// <remarks>
/// <c>AddBatchKit</c> registers one with the buffer's name as its key, and adapters pass it to their transport and receiver. It needs an <see cref="IMeterFactory"/> in the services, which every host has. Without
/// dependency injection, create one for each buffer, because two with the same name and factory would have instruments of the same name. A connection has the tags <c>messaging.system</c>, <c>batchkit.purpose</c> and
/// <c>batchkit.target</c>, none of which has a user name or password. Thread-safe.
/// </remarks>
public sealed class ConnectionMetrics
{
    private readonly ObserverFaults _faults = new();

    // Guards the list. A meter of an application's factory outlives a connection.
    private readonly Lock _lock = new();
    private readonly List<WeakReference<ConnectionReporter>> _connections = [];
    private Histogram<double>? _restoreDuration;

    /// <summary>Creates the instruments.</summary>
    /// <param name="meterFactory">Creates their meter; null for no instruments.</param>
    /// <param name="bufferName">The buffer's name, a tag of the meter; null, the default, for no tag.</param>
    /// <param name="timeProvider">The clock of durations; the system's when null.</param>
    public ConnectionMetrics(IMeterFactory? meterFactory, string? bufferName = null, TimeProvider? timeProvider = null)
    {
        TimeProvider = timeProvider ?? TimeProvider.System;
        if (meterFactory is null)
            return;
        _ = _faults.CreateMeter(meterFactory, bufferName is null ? [] : [new("batchkit.buffer", bufferName)], meter =>
        {
            meter.CreateObservableUpDownCounter("batchkit.connections", () => Measure(States), "{connection}", "Connections to brokers and servers, by state.");
            meter.CreateObservableCounter("batchkit.connection.changes", () => Measure(Changes), "{change}", "Connections that opened, were lost and were restored.");
            _restoreDuration = meter.CreateHistogram<double>(
                "batchkit.connection.restore.duration", "s", "Time from the loss of a connection until it was open again.", tags: null, BatchKitMetrics.SecondsAdvice);
        });
    }

    /// <summary>The clock of durations.</summary>
    internal TimeProvider TimeProvider { get; }

    /// <summary>What meter listeners have thrown, as a sentence for a health check; null while nothing was thrown.</summary>
    internal string? Fault => _faults is { Count: > 0 and var count, Last: { } last }
        ? $"A listener of the meter {BatchKitMetrics.MeterName} failed {count} times; the last time it threw {last.GetType().Name}."
        : null;

    /// <summary>Publishes a connection until it is collected.</summary>
    internal void Add(ConnectionReporter connection)
    {
        lock (_lock)
        {
            _connections.RemoveAll(static one => !one.TryGetTarget(out _));
            _connections.Add(new WeakReference<ConnectionReporter>(connection));
        }
    }

    /// <summary>Records that a lost connection is open again.</summary>
    internal void RecordRestore(TimeSpan duration, ReadOnlySpan<KeyValuePair<string, object?>> tags)
    {
        try
        {
            _restoreDuration?.Record(duration.TotalSeconds, tags);
        }
        catch (Exception fault)
        {
            _faults.Add(fault);
        }
    }

    private static IEnumerable<(KeyValuePair<string, object?> Tag, long Value)> States(ObservedConnection connection) =>
        Enum.GetValues<ObservedState>().Select(state => (new KeyValuePair<string, object?>("batchkit.state", state.ToString()), connection.State == state ? 1L : 0L));

    private static IEnumerable<(KeyValuePair<string, object?> Tag, long Value)> Changes(ObservedConnection connection) =>
        Enum.GetValues<BrokerConnectionState>().Select(change => (new KeyValuePair<string, object?>("batchkit.change", change.ToString()), connection.Counts[(int)change]));

    // Connections of one purpose to one broker are one series, because a meter's reader keeps one value for each set of tags.
    private IEnumerable<Measurement<long>> Measure(Func<ObservedConnection, IEnumerable<(KeyValuePair<string, object?> Tag, long Value)>> of) =>
        from same in Living().GroupBy(static connection => string.Join('\n', connection.Tags.Select(static tag => tag.Value)), StringComparer.Ordinal)
        let tags = same.First().Tags
        from series in same.SelectMany(connection => of(connection.Read())).GroupBy(static one => one.Tag.Value)
        select new Measurement<long>(series.Sum(static one => one.Value), [.. tags, series.First().Tag]);

    private ConnectionReporter[] Living()
    {
        lock (_lock)
            return [.. _connections.Select(static one => one.TryGetTarget(out var connection) ? connection : null).OfType<ConnectionReporter>()];
    }
}

/// <summary>The state of a connection for the instruments.</summary>
internal enum ObservedState
{
    /// <summary>It was not used yet, or the application closed it.</summary>
    Closed = 0,

    /// <summary>It is open.</summary>
    Open = 1,

    /// <summary>It was lost, or could not be opened.</summary>
    Down = 2,
}

/// <summary>What the instruments show of a connection.</summary>
/// <param name="State">Its state.</param>
/// <param name="Counts">How often each <see cref="BrokerConnectionState"/> happened, by its number.</param>
internal sealed record ObservedConnection(ObservedState State, long[] Counts);
