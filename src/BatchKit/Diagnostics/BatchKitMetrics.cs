using System.Diagnostics;
using System.Diagnostics.Metrics;

namespace BatchKit.Diagnostics;

/// <summary>All instruments of one buffer. Handles are never tags: their number has no bound.</summary>
internal sealed class BatchKitMetrics : IDisposable
{
    public const string MeterName = "BatchKit";

    private static readonly FlushReason[] Reasons = Enum.GetValues<FlushReason>();

    private readonly long[] _flushes = new long[Reasons.Length];
    private readonly Meter _meter;
    private readonly Counter<long> _sentMessages;
    private readonly Histogram<double> _operationDuration;
    private long _refusedMessages;

    public BatchKitMetrics(string bufferName, IMeterFactory? meterFactory)
    {
        var options = new MeterOptions(MeterName) { Tags = [new("batchkit.buffer", bufferName)] };
        _meter = meterFactory?.Create(options) ?? new Meter(options);

        // OpenTelemetry semconv 1.28, messaging client metrics.
        _sentMessages = _meter.CreateCounter<long>(
            "messaging.client.sent.messages", "{message}", "Messages that were given to a transport, by route and outcome.");
        _operationDuration = _meter.CreateHistogram<double>(
            "messaging.client.operation.duration", "s", "Time from the start of a send until its batches were settled, retries included.");
    }

    /// <summary>Whether measuring a send is worth its clock readings.</summary>
    public bool IsObservingSends => _sentMessages.Enabled || _operationDuration.Enabled;

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

    public void CountFlush(FlushReason reason) => Interlocked.Increment(ref _flushes[(int)reason]);

    public void CountRefused() => Interlocked.Increment(ref _refusedMessages);

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
        _sentMessages.Add(messages, tags);
        _operationDuration.Record(duration.TotalSeconds, tags);
    }

    /// <summary>Shows the buffer's own counters.</summary>
    public void Observe(Func<OutputStatistics> read, Func<long> readUnscopedBatches)
    {
        Count("batchkit.messages.accepted", "Messages taken by a write.", s => s.AcceptedMessages);
        Count("batchkit.messages.acknowledged", "Messages that every route acknowledged.", s => s.AcknowledgedMessages);
        Count("batchkit.messages.failed", "Messages refused for good or past their delivery limit.", s => s.FailedMessages);
        Count("batchkit.sends", "Sends, those that failed included.", s => s.Sends);
        Count("batchkit.sends.failed", "Sends that failed, in whole or in part.", s => s.FailedSends);
        Gauge("batchkit.messages.pending", "{message}", "Messages accepted and not yet settled.", s => s.PendingMessages);
        Gauge("batchkit.buffered", "By", "Bytes reserved by what is accepted and not yet settled.", s => s.BufferedBytes);
        Gauge("batchkit.handles", "{handle}", "Handles that the buffer holds state for.", s => s.LiveHandles);
        Gauge("batchkit.scopes", "{scope}", "Buffering scopes that are open.", s => s.OpenScopes);
        _meter.CreateObservableCounter("batchkit.messages.dropped", () => Dropped(read()), "{message}", "Messages dropped, by reason.");
        _meter.CreateObservableCounter("batchkit.batches", () => Flushes(readUnscopedBatches()), "{batch}", "Batches sealed, by the reason of the flush.");

        void Count(string name, string description, Func<OutputStatistics, long> of) =>
            _meter.CreateObservableCounter(name, () => of(read()), null, description);
        void Gauge(string name, string unit, string description, Func<OutputStatistics, long> of) =>
            _meter.CreateObservableUpDownCounter(name, () => of(read()), unit, description);
    }

    public void Dispose() => _meter.Dispose();

    private static Measurement<long>[] Dropped(OutputStatistics statistics) =>
    [
        new(statistics.OverflowDroppedMessages + statistics.RefusedMessages, new KeyValuePair<string, object?>("batchkit.reason", nameof(DropReason.Overflow))),
        new(statistics.StopDroppedMessages, new KeyValuePair<string, object?>("batchkit.reason", nameof(DropReason.Stopped))),
    ];

    private IEnumerable<Measurement<long>> Flushes(long unscopedBatches)
    {
        foreach (var reason in Reasons)
        {
            var batches = Volatile.Read(ref _flushes[(int)reason]) + (reason == FlushReason.Unscoped ? unscopedBatches : 0);
            yield return new(batches, new KeyValuePair<string, object?>("batchkit.reason", reason.ToString()));
        }
    }
}
