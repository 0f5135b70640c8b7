using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace BatchKit.Diagnostics;

/// <summary>All instruments of one buffer. Handles are never tags: their number has no bound.</summary>
internal sealed class BatchKitMetrics
{
    public const string MeterName = "BatchKit";

    /// <summary>The buckets of every histogram of seconds: from a send inside the process to an outage that <c>DeliveryTimeout</c> ends.</summary>
    public static readonly InstrumentAdvice<double> SecondsAdvice = new()
    {
        HistogramBucketBoundaries = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120],
    };

    private static readonly FlushReason[] Reasons = Enum.GetValues<FlushReason>();

    private readonly long[] _flushes = new long[Reasons.Length];
    private readonly ObserverFaults _faults;
    private readonly Meter? _meter;
    private Counter<long>? _sentMessages;
    private Histogram<double>? _operationDuration;
    private long _refusedMessages;
    private long _expiredMessages;
    private int _waitingWrites;
    private WeakReference<BufferCounters>? _counters;

    /// <param name="bufferName">The buffer's name, a tag of the meter.</param>
    /// <param name="meterFactory">Creates the meter; null for one of its own.</param>
    /// <param name="faults">Counts what the meter's listeners throw.</param>
    public BatchKitMetrics(string bufferName, IMeterFactory? meterFactory, ObserverFaults faults)
    {
        _faults = faults;
        _meter = faults.CreateMeter(meterFactory, [new("batchkit.buffer", bufferName)], AddInstruments);
    }

    /// <summary>True when someone observes sends, so that measuring them is worth reading the clock.</summary>
    public bool IsObservingSends => _sentMessages is { Enabled: true } || _operationDuration is { Enabled: true };

    public long Batches
    {
        get
        {
            var batches = 0L;
            foreach (ref var count in _flushes.AsSpan())
                batches += Volatile.Read(ref count);
            return batches;
        }
    }

    public long RefusedMessages => Volatile.Read(ref _refusedMessages);

    public long ExpiredMessages => Volatile.Read(ref _expiredMessages);

    public int WaitingWrites => Volatile.Read(ref _waitingWrites);

    public void CountFlush(FlushReason reason) => Interlocked.Increment(ref _flushes[(int)reason]);

    public void CountRefused() => Interlocked.Increment(ref _refusedMessages);

    public void CountExpired(int messages) => Interlocked.Add(ref _expiredMessages, messages);

    public void BeginWait() => Interlocked.Increment(ref _waitingWrites);

    public void EndWait() => Interlocked.Decrement(ref _waitingWrites);

    public void RecordSend(string route, int messages, TimeSpan duration, string? errorType)
    {
        var tags = new TagList
        {
            { "messaging.system", "batchkit" },
            { "messaging.operation.name", "send" },
            { "messaging.destination.name", route },
        };
        if (errorType is not null)
            tags.Add("error.type", errorType);
        _sentMessages?.Add(messages, tags);
        _operationDuration?.Record(duration.TotalSeconds, tags);
    }

    /// <summary>Publishes the buffer's own counters, until it is disposed or collected: a meter of an application's factory outlives the buffer.</summary>
    /// <param name="counters">The counters. Only the buffer keeps them alive.</param>
    public void Observe(BufferCounters counters) => _counters = new WeakReference<BufferCounters>(counters);

    /// <summary>Ends the instruments.</summary>
    public void Dispose()
    {
        _counters = null;
        _faults.Dispose(_meter);
    }

    private void AddInstruments(Meter meter)
    {
        // OpenTelemetry semconv 1.28, messaging client metrics.
        _sentMessages = meter.CreateCounter<long>(
            "messaging.client.sent.messages", "{message}", "Messages that were given to a transport, by route and outcome.");
        _operationDuration = meter.CreateHistogram<double>(
            "messaging.client.operation.duration", "s", "Time from the start of a send until it was decided what became of each of its batches, retries included.", tags: null, SecondsAdvice);
        Count("batchkit.messages.accepted", "Messages accepted by a write.", s => s.AcceptedMessages);
        Count("batchkit.messages.acknowledged", "Messages that every route acknowledged.", s => s.AcknowledgedMessages);
        Count("batchkit.messages.failed", "Messages refused, or older than DeliveryTimeout.", s => s.FailedMessages);
        Count("batchkit.messages.refused", "Messages that a write dropped instead of accepting them, because the buffer was full.", s => s.RefusedMessages);
        Count("batchkit.messages.superseded", "Messages that a newer one with their key replaced while they waited.", s => s.SupersededMessages);
        Count("batchkit.sends", "Sends, including those that failed.", s => s.Sends);
        Count("batchkit.sends.failed", "Sends that failed, in whole or in part.", s => s.FailedSends);
        Gauge("batchkit.messages.pending", "{message}", "Messages accepted and not yet settled.", s => s.PendingMessages);
        Gauge("batchkit.writes.waiting", "{write}", "Writes that wait for capacity, awaited or not.", s => s.WaitingWrites);
        Gauge("batchkit.buffered", "By", "Bytes reserved by what is accepted and not yet settled.", s => s.BufferedBytes);
        Gauge("batchkit.handles", "{handle}", "Handles that the buffer holds state for.", s => s.LiveHandles);
        Gauge("batchkit.scopes", "{scope}", "Buffering scopes that are open.", s => s.OpenScopes);
        meter.CreateObservableCounter("batchkit.messages.dropped", () => Measure(Dropped), "{message}", "Messages accepted and then dropped, by reason.");
        meter.CreateObservableCounter("batchkit.batches", () => Measure(Flushes), "{batch}", "Batches sealed, by the reason of the flush.");

        void Count(string name, string description, Func<OutputStatistics, long> of) =>
            meter.CreateObservableCounter(name, () => Measure(counters => [new(of(counters.Read(name)))]), null, description);
        void Gauge(string name, string unit, string description, Func<OutputStatistics, long> of) =>
            meter.CreateObservableUpDownCounter(name, () => Measure(counters => [new(of(counters.Read(name)))]), unit, description);
    }

    private Measurement<long>[] Measure(Func<BufferCounters, Measurement<long>[]> of) =>
        _counters is { } weak && weak.TryGetTarget(out var counters) ? of(counters) : [];

    private static Measurement<long>[] Dropped(BufferCounters counters)
    {
        var statistics = counters.Read("batchkit.messages.dropped");
        return
        [
            new(statistics.OverflowDroppedMessages, new KeyValuePair<string, object?>("batchkit.reason", nameof(DropReason.Overflow))),
            new(statistics.StopDroppedMessages, new KeyValuePair<string, object?>("batchkit.reason", nameof(DropReason.Stopped))),
            new(statistics.ExpiredMessages, new KeyValuePair<string, object?>("batchkit.reason", nameof(DropReason.Expired))),
        ];
    }

    private Measurement<long>[] Flushes(BufferCounters counters)
    {
        var unscoped = counters.ReadUnscopedBatches();
        return
        [
            .. Reasons.Select(reason => new Measurement<long>(
                Volatile.Read(ref _flushes[(int)reason]) + (reason == FlushReason.Unscoped ? unscoped : 0), new KeyValuePair<string, object?>("batchkit.reason", reason.ToString()))),
        ];
    }
}

/// <summary>Reads the counters of one buffer. All instruments of a scrape share one reading, because a reading walks all handles. Thread-safe.</summary>
/// <param name="read">Reads all counters.</param>
/// <param name="readUnscopedBatches">Reads how many batches were sealed by the sender that took them.</param>
/// <param name="timeProvider">The clock that tells how old a reading is.</param>
internal sealed class BufferCounters(Func<OutputStatistics> read, Func<long> readUnscopedBatches, TimeProvider timeProvider)
{
    // A scrape takes milliseconds, and no one scrapes more often.
    private static readonly TimeSpan Fresh = TimeSpan.FromSeconds(1);

    // Guards the fields below.
    private readonly Lock _lock = new();
    private readonly HashSet<string> _readers = new(StringComparer.Ordinal);
    private OutputStatistics? _reading;
    private long _readAt;

    /// <summary>The counters, as they were when the first instrument of this scrape asked.</summary>
    /// <param name="instrument">Who asks. One that asks again begins the next scrape.</param>
    public OutputStatistics Read(string instrument)
    {
        lock (_lock)
        {
            if (_reading is not null && timeProvider.GetElapsedTime(_readAt) < Fresh && _readers.Add(instrument))
                return _reading;
            _reading = null;
            _readers.Clear();
            _readers.Add(instrument);
        }

        // Outside the lock, because a reading waits for the handles' locks.
        var reading = read();
        lock (_lock)
            (_reading, _readAt) = (reading, timeProvider.GetTimestamp());
        return reading;
    }

    public long ReadUnscopedBatches() => readUnscopedBatches();
}
