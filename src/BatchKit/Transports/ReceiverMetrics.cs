using System.Diagnostics;
using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>All instruments of one receiver. Handles and producers are never tags: their number has no bound.</summary>
internal sealed class ReceiverMetrics
{
    private const string NodeTag = "batchkit.node";

    private readonly KeyValuePair<string, object?>[] _tags;
    private readonly WeakReference<BatchReceiver> _receiver;
    private Histogram<double>? _deliveryDuration;

    /// <summary>Creates the instruments.</summary>
    public ReceiverMetrics(BatchReceiver receiver, BatchReceiverOptions options, IMeterFactory meterFactory, ObserverFaults faults)
    {
        // A meter of an application's factory outlives the receiver.
        _receiver = new WeakReference<BatchReceiver>(receiver);
        _tags = [new("messaging.system", options.MessagingSystem), .. Tag("messaging.destination.name", options.QueueName)];
        _ = faults.CreateMeter(meterFactory, [.. Tag("batchkit.buffer", options.BufferName), .. _tags], AddInstruments);
    }

    /// <summary>True when someone observes deliveries, so that measuring them is worth reading the clock.</summary>
    public bool IsObservingDeliveries => _deliveryDuration is { Enabled: true };

    // No tag of the meter, because the number may be leased after the receiver was created.
    private int? Node => _receiver.TryGetTarget(out var receiver) ? receiver.Node : null;

    public void RecordDelivery(TimeSpan duration, string? errorType)
    {
        var tags = new TagList(_tags);
        if (Node is { } node)
            tags.Add(NodeTag, node);
        if (errorType is not null)
            tags.Add("error.type", errorType);
        _deliveryDuration?.Record(duration.TotalSeconds, tags);
    }

    private void AddInstruments(Meter meter)
    {
        meter.CreateObservableCounter("batchkit.receiver.frames", () => Measure(Frames), "{frame}", "Frames taken off a broker, by outcome.");
        meter.CreateObservableCounter("batchkit.receiver.batches", () => Measure(Batches), "{batch}", "Batches of received frames, by outcome.");
        meter.CreateObservableCounter("batchkit.receiver.messages", () => Measure(Messages), "{message}", "Messages of received batches, by outcome.");
        meter.CreateObservableUpDownCounter(
            "batchkit.receiver.failures", () => Measure(static statistics => [(null, statistics.ConsecutiveFailures)]), "{failure}", "Consecutive failures of the next hop.");
        // OpenTelemetry semconv 1.28, messaging consumer metrics.
        _deliveryDuration = meter.CreateHistogram<double>(
            "messaging.process.duration", "s", "Time from reading a frame until the next hop has its batches or refused them, retries included.", tags: null, BatchKitMetrics.SecondsAdvice);
    }

    private static KeyValuePair<string, object?>[] Tag(string name, object? value) => value is null ? [] : [new(name, value)];

    private static (string? Outcome, long Value)[] Frames(BatchReceiverStatistics statistics) =>
        [("Received", statistics.ReceivedFrames), ("Malformed", statistics.MalformedFrames), ("Rejected", statistics.RejectedFrames)];

    private static (string? Outcome, long Value)[] Batches(BatchReceiverStatistics statistics) =>
    [
        ("Delivered", statistics.DeliveredBatches), ("Duplicate", statistics.DuplicateBatches), ("OwnGroup", statistics.OwnGroupBatches), ("Refused", statistics.RefusedBatches),
        ("Abandoned", statistics.AbandonedBatches),
    ];

    private static (string? Outcome, long Value)[] Messages(BatchReceiverStatistics statistics) =>
    [
        ("Delivered", statistics.DeliveredMessages), ("Duplicate", statistics.DuplicateMessages), ("OwnGroup", statistics.OwnGroupMessages), ("Refused", statistics.RefusedMessages),
        ("Abandoned", statistics.AbandonedMessages),
    ];

    private Measurement<long>[] Measure(Func<BatchReceiverStatistics, (string? Outcome, long Value)[]> of) =>
        _receiver.TryGetTarget(out var receiver)
            ? [.. of(receiver.GetStatistics()).Select(one => new Measurement<long>(one.Value, [.. _tags, .. Tag(NodeTag, receiver.Node), .. Tag("batchkit.outcome", one.Outcome)]))]
            : [];
}

/// <summary>Measures and traces a receiver's deliveries while someone listens. Throws nothing that a listener throws.</summary>
internal sealed class ReceiverObserver
{
    private readonly string _system;
    private readonly string? _queue;

    public ReceiverObserver(BatchReceiver receiver, BatchReceiverOptions options, IMeterFactory? meterFactory, ObserverFaults faults)
    {
        (_system, _queue, Faults, TimeProvider) = (options.MessagingSystem, options.QueueName, faults, receiver.TimeProvider);
        Metrics = meterFactory is null ? null : new ReceiverMetrics(receiver, options, meterFactory, faults);
    }

    public ObserverFaults Faults { get; }

    public TimeProvider TimeProvider { get; }

    public ReceiverMetrics? Metrics { get; }

    public bool IsObserving => BatchKitTracing.IsListening || Metrics is { IsObservingDeliveries: true };

    public DeliveryObservation Start(int messages, ActivityContext trace) =>
        new(this, BatchKitTracing.IsListening ? DeliverySpan.Start(_system, _queue, messages, [trace], Faults) : null);
}

/// <summary>One delivery, from its start until its batches are settled or abandoned.</summary>
internal sealed class DeliveryObservation(ReceiverObserver observer, DeliverySpan? span) : IDisposable
{
    /// <summary>The error of a delivery in which the next hop refused messages, or did not take them in time.</summary>
    public const string RefusedError = "refused";

    private readonly long _startedAt = observer.TimeProvider.GetTimestamp();

    public string? ErrorType { get; set; }

    public void Dispose()
    {
        try
        {
            observer.Metrics?.RecordDelivery(observer.TimeProvider.GetElapsedTime(_startedAt), ErrorType);
        }
        catch (Exception fault)
        {
            observer.Faults.Add(fault);
        }

        if (span is null)
            return;
        span.ErrorType = ErrorType;
        span.Dispose();
    }
}

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
