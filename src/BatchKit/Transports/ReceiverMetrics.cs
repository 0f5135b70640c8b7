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
