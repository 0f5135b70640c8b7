using System.Diagnostics;
using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres;

/// <summary>All instruments of one queue's receiver. Keys and ids are never tags: their number has no bound.</summary>
/// <remarks>What a meter listener throws is counted. A meter of an application's factory outlives the receiver, so its instruments are empty once the receiver is collected.</remarks>
internal sealed class QueueMetrics
{
    // From a handler that only counts to one that a limit of minutes ends.
    private static readonly InstrumentAdvice<double> SecondsAdvice = new()
    {
        HistogramBucketBoundaries = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 600],
    };

    private readonly ObserverFaults _faults;
    private readonly WeakReference<PostgresQueueReceiver> _receiver;
    private readonly KeyValuePair<string, object?>[] _tags;
    private Histogram<double>? _duration;
    private Instrument? _depth;
    private Instrument? _age;

    public QueueMetrics(PostgresQueueReceiver receiver, string queue, IMeterFactory? meterFactory, ObserverFaults faults)
    {
        (_receiver, _faults) = (new WeakReference<PostgresQueueReceiver>(receiver), faults);
        _tags = [new("messaging.system", "postgresql"), new("messaging.destination.name", queue)];
        if (meterFactory is not null)
            _ = faults.CreateMeter(meterFactory, _tags, AddInstruments);
    }

    /// <summary>True when someone observes the depth, so that reading it is worth a statement.</summary>
    public bool IsObservingDepth => _depth is { Enabled: true } || _age is { Enabled: true };

    public void RecordHandling(TimeSpan duration, string? errorType)
    {
        if (_duration is not { Enabled: true })
            return;
        var tags = new TagList(_tags);
        if (errorType is not null)
            tags.Add("error.type", errorType);
        try
        {
            _duration.Record(duration.TotalSeconds, tags);
        }
        catch (Exception fault)
        {
            _faults.Add(fault);
        }
    }

    private void AddInstruments(Meter meter)
    {
        meter.CreateObservableCounter("batchkit.queue.messages", () => Measure<long>(Outcomes), "{message}", "Messages that this process handled or gave up, by outcome.");
        meter.CreateObservableCounter(
            "batchkit.queue.timeouts", () => Measure<long>(static receiver => [new(receiver.GetStatistics().TimedOutBatches)]), "{batch}", "Batches whose handler ran longer than HandlerTimeLimit.");
        meter.CreateObservableUpDownCounter(
            "batchkit.queue.abandoned", () => Measure<long>(static receiver => [new(receiver.GetStatistics().AbandonedHandlers)]), "{handler}", "Handlers that were given up and still run.");
        _depth = meter.CreateObservableGauge("batchkit.queue.depth", () => Measure<long>(Depth), "{message}", "Messages in the queue, by state, as each process last read them.");
        _age = meter.CreateObservableGauge("batchkit.queue.age", () => Measure<double>(Age), "s", "Time since the oldest ready or claimed message was enqueued, as each process last read it.");
        _duration = meter.CreateHistogram<double>("batchkit.queue.handling.duration", "s", "Time that the handler of a batch took.", tags: null, SecondsAdvice);
    }

    private static Measurement<long>[] Outcomes(PostgresQueueReceiver receiver)
    {
        var statistics = receiver.GetStatistics();
        return
        [
            With(statistics.CompletedMessages, "batchkit.outcome", "Completed"), With(statistics.RetriedMessages, "batchkit.outcome", "Retried"), With(statistics.BuriedMessages, "batchkit.outcome", "Dead"),
            With(statistics.ReleasedMessages, "batchkit.outcome", "Released"), With(statistics.LostMessages, "batchkit.outcome", "Lost"),
        ];
    }

    private static Measurement<long>[] Depth(PostgresQueueReceiver receiver) => receiver.Depth is { HasCounts: true } depth
        ? [With(depth.Ready, "batchkit.state", "Ready"), With(depth.Delayed, "batchkit.state", "Delayed"), With(depth.Dead, "batchkit.state", "Dead")]
        : [];

    private static Measurement<double>[] Age(PostgresQueueReceiver receiver) => receiver.Depth is { } depth ? [new(depth.OldestAge.TotalSeconds)] : [];

    private static Measurement<long> With(long value, string tag, string name) => new(value, new KeyValuePair<string, object?>(tag, name));

    private Measurement<T>[] Measure<T>(Func<PostgresQueueReceiver, Measurement<T>[]> of)
        where T : struct => _receiver.TryGetTarget(out var receiver) ? [.. of(receiver).Select(one => new Measurement<T>(one.Value, [.. _tags, .. one.Tags]))] : [];
}
