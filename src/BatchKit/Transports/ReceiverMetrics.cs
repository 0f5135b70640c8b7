using System.Diagnostics;
using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>All instruments of one receiver. Handles and producers are never tags: their number has no bound.</summary>
internal sealed class ReceiverMetrics
{
    private readonly Meter _meter;
    private readonly Histogram<double> _deliveryDuration;
    private readonly KeyValuePair<string, object?>[] _tags;
    private readonly WeakReference<BatchReceiver> _receiver;

    /// <summary>Creates the instruments; a listener that is told of them may throw.</summary>
    public ReceiverMetrics(BatchReceiver receiver, BatchReceiverOptions options, IMeterFactory meterFactory)
    {
        // A meter of an application's factory lives longer than the receiver.
        _receiver = new WeakReference<BatchReceiver>(receiver);
        _tags = [new("messaging.system", options.MessagingSystem), .. Tag("messaging.destination.name", options.QueueName)];
        _meter = meterFactory.Create(new MeterOptions(BatchKitMetrics.MeterName) { Tags = [.. Tag("batchkit.buffer", options.BufferName), .. Tag("batchkit.node", options.Node), .. _tags] });
        _meter.CreateObservableCounter("batchkit.receiver.frames", () => Measure(Frames), "{frame}", "Frames taken off a broker, by outcome.");
        _meter.CreateObservableCounter("batchkit.receiver.batches", () => Measure(Batches), "{batch}", "Batches of received frames, by outcome.");
        _meter.CreateObservableCounter("batchkit.receiver.messages", () => Measure(Messages), "{message}", "Messages of received batches, by outcome.");
        _meter.CreateObservableUpDownCounter(
            "batchkit.receiver.failures", () => Measure(static statistics => [(null, statistics.ConsecutiveFailures)]), "{failure}", "Consecutive failures of the next hop.");
        // OpenTelemetry semconv 1.28, messaging consumer metrics.
        _deliveryDuration = _meter.CreateHistogram<double>(
            "messaging.process.duration", "s", "Time from reading a frame until the next hop has its batches or refused them, retries included.", tags: null, BatchKitMetrics.SecondsAdvice);
    }

    /// <summary>Whether measuring a delivery is worth its clock readings.</summary>
    public bool IsObservingDeliveries => _deliveryDuration.Enabled;

    public void RecordDelivery(TimeSpan duration, string? errorType)
    {
        var tags = new TagList(_tags);
        if (errorType is not null)
            tags.Add("error.type", errorType);
        _deliveryDuration.Record(duration.TotalSeconds, tags);
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
            ? [.. of(receiver.GetStatistics()).Select(one => new Measurement<long>(one.Value, [.. _tags, .. Tag("batchkit.outcome", one.Outcome)]))]
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
        try
        {
            Metrics = meterFactory is null ? null : new ReceiverMetrics(receiver, options, meterFactory);
        }
        catch (Exception fault)
        {
            faults.Add(fault);
        }
    }

    public ObserverFaults Faults { get; }

    public TimeProvider TimeProvider { get; }

    public ReceiverMetrics? Metrics { get; }

    public bool IsObserving => BatchKitTracing.IsListening || Metrics is { IsObservingDeliveries: true };

    public DeliveryObservation Start(int messages, ActivityContext trace) => new(this, DeliverySpan.Start(_system, _queue, messages, [trace], Faults));
}

/// <summary>One delivery, from its start until its batches are settled or abandoned.</summary>
internal sealed class DeliveryObservation(ReceiverObserver observer, DeliverySpan? span) : IDisposable
{
    /// <summary>The error of a delivery in which the next hop refused messages for good, or did not take them in time.</summary>
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
