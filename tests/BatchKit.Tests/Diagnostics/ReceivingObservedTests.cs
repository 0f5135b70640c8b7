using System.Buffers;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Diagnostics.Metrics;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using OpenTelemetry;
using OpenTelemetry.Trace;

namespace BatchKit.Tests.Diagnostics;

/// <summary>The meter of a receiver, and the trace that a frame carries from the send to the delivery.</summary>
public sealed class ReceivingObservedTests : IDisposable
{
    private readonly string _queue = Some.Name("queue");
    private readonly string _route = Some.Name("route");
    private readonly CollectingTransport _arrived = new();
    private readonly List<Activity> _spans = [];
    private readonly ServiceProvider _services = new ServiceCollection().AddMetrics().BuildServiceProvider();

    private IMeterFactory MeterFactory => _services.GetRequiredService<IMeterFactory>();

    public void Dispose() => _services.Dispose();

    [Fact]
    public async Task A_receivers_instruments_count_what_became_of_its_frames()
    {
        var receiver = Receiver(_arrived);
        var measured = new List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)>();
        using var listener = Listen(measured);
        var producer = Some.Producer();
        var frame = Some.Frame(Some.Batch(Some.Connection(), producer, 1, Some.Lines(3)));

        await receiver.ReceiveAsync(frame, CancellationToken.None);
        await receiver.ReceiveAsync(frame, CancellationToken.None);
        await Assert.ThrowsAsync<FrameFormatException>(async () => await receiver.ReceiveAsync("no frame"u8.ToArray(), CancellationToken.None));

        listener.RecordObservableInstruments();
        Assert.Equal(2, Value("batchkit.receiver.frames", "Received"));
        Assert.Equal(1, Value("batchkit.receiver.frames", "Malformed"));
        Assert.Equal(1, Value("batchkit.receiver.batches", "Delivered"));
        Assert.Equal(3, Value("batchkit.receiver.messages", "Delivered"));
        Assert.Equal(3, Value("batchkit.receiver.messages", "Duplicate"));
        Assert.Equal(0, Value("batchkit.receiver.messages", "Refused"));
        Assert.Single(measured, one => one.Instrument == "messaging.process.duration");
        Assert.All(measured, one => Assert.Contains(one.Tags, tag => tag is { Key: "messaging.system", Value: "rabbitmq" }));

        double Value(string instrument, string outcome) =>
            Assert.Single(measured, one => one.Instrument == instrument && one.Tags.Any(tag => Equals(tag.Value, outcome))).Value;
    }

    [Fact]
    public async Task A_receivers_instruments_name_the_node_that_was_leased_after_it_was_created()
    {
        var receiver = Receiver(_arrived);
        var measured = new List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)>();
        using var listener = Listen(measured);

        receiver.ReadFor(new NodeNumber(1042));
        await receiver.ReceiveAsync(Some.Frame(Some.Batch(Some.Connection(), Some.Producer(), 1, "line")), CancellationToken.None);

        listener.RecordObservableInstruments();
        Assert.Contains(measured, one => one.Instrument == "messaging.process.duration");
        Assert.Contains(measured, one => one.Instrument == "batchkit.receiver.frames");
        Assert.All(measured, one => Assert.Contains(one.Tags, tag => tag is { Key: "batchkit.node", Value: 1042 }));
    }

    [Fact]
    public async Task A_delivery_that_loses_messages_has_an_error()
    {
        var receiver = Receiver(new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Answer(BatchOutcome.Refused));
        var measured = new List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)>();
        using var listener = Listen(measured);

        await receiver.ReceiveAsync(Some.Frame(Some.Batch(Some.Connection(), Some.Producer(), 1, "line")), CancellationToken.None);

        var duration = Assert.Single(measured, one => one.Instrument == "messaging.process.duration");
        Assert.Contains(duration.Tags, tag => tag is { Key: "error.type", Value: "refused" });
    }

    [Fact]
    public async Task Every_histogram_has_advice_on_its_buckets()
    {
        // Other tests publish instruments of that name meanwhile.
        var histograms = new ConcurrentQueue<Instrument<double>>();
        using var listener = new MeterListener
        {
            InstrumentPublished = (instrument, _) =>
            {
                if (instrument is Histogram<double> histogram && instrument.Meter.Name == "BatchKit")
                    histograms.Enqueue(histogram);
            },
        };
        listener.Start();

        Receiver(_arrived);
        await using var buffer = new OutputBuffer(_arrived, name: _route, meterFactory: MeterFactory);

        Assert.Contains(histograms, histogram => histogram.Name == "messaging.process.duration");
        Assert.Contains(histograms, histogram => histogram.Name == "messaging.client.operation.duration");
        Assert.All(histograms, histogram => Assert.NotEmpty(histogram.Advice?.HistogramBucketBoundaries ?? []));
    }

    [Fact]
    public async Task A_meter_listener_that_throws_stops_no_delivery()
    {
        using var listener = new MeterListener { InstrumentPublished = (instrument, own) => own.EnableMeasurementEvents(instrument) };
        listener.SetMeasurementEventCallback<double>((instrument, _, _, _) => ThrowFor(instrument));
        listener.Start();
        var receiver = Receiver(_arrived);

        await receiver.ReceiveAsync(Some.Frame(Some.Batch(Some.Connection(), Some.Producer(), 1, "line")), CancellationToken.None);

        Assert.Equal(["line"], _arrived.Texts);
        Assert.Equal(1, receiver.GetStatistics().ObserverFaults);
    }

    [Fact]
    public async Task The_span_of_a_delivery_is_a_child_of_its_send_and_current_at_the_next_hop()
    {
        using var listener = ListenToSpans();
        var next = new CurrentActivityTransport();
        await using var buffer = new OutputBuffer([new OutputRoute(_route, Broker(next))]);

        buffer.Write(Some.Connection(), "line");
        await buffer.FlushAsync().WithinDeadline();

        var delivery = Assert.Single(_spans, span => span.DisplayName == $"process {_queue}");
        var send = Assert.Single(_spans, span => span.DisplayName == $"send {_route}");
        Assert.Equal((ActivityKind.Consumer, send.TraceId, send.SpanId), (delivery.Kind, delivery.TraceId, delivery.ParentSpanId));
        Assert.True(delivery.HasRemoteParent);
        Assert.Equal(delivery.SpanId, next.Current?.SpanId);
        Assert.Equal(1, delivery.GetTagItem("messaging.batch.message_count"));
    }

    [Fact]
    public async Task OpenTelemetry_gets_one_trace_from_the_send_to_the_delivery()
    {
        using var exporter = new CallingExporter(Collect);
        using var processor = new SimpleActivityExportProcessor(exporter);
        using var provider = Sdk.CreateTracerProviderBuilder().AddSource("BatchKit").AddProcessor(processor).Build();
        await using var broker = new InMemoryTransport(_arrived, new BatchReceiverOptions { QueueName = _queue });
        await using var buffer = new OutputBuffer([new OutputRoute(_route, broker)]);

        buffer.Write(Some.Group(), "line");
        await buffer.FlushAsync().WithinDeadline();
        provider.ForceFlush();

        var delivery = Assert.Single(_spans, span => span.DisplayName == $"process {_queue}");
        var send = Assert.Single(_spans, span => span.DisplayName == $"send {_route}");
        Assert.Equal((send.TraceId, send.SpanId), (delivery.TraceId, delivery.ParentSpanId));
    }

    [Fact]
    public void A_frame_has_the_bytes_of_before_where_no_span_is_recorded()
    {
        var batch = Some.Batch(Some.Connection(), Some.Producer(), 1, "line");
        Activity.Current = null;

        using var planned = Assert.Single(FramePlan.Create(new[] { batch }, maxFrameBytes: 4096, destinationNode: null)).Encode();

        Assert.Equal(Some.Frame(batch), planned.Bytes.ToArray());
    }

    [Fact]
    public void A_frame_is_refused_whose_trace_has_no_id_or_is_behind_the_first_batch()
    {
        var (producer, trace) = (Some.Producer(), new ActivityContext(ActivityTraceId.CreateRandom(), ActivitySpanId.CreateRandom(), ActivityTraceFlags.Recorded));
        MessageBatch[] batches = [Some.Batch(Some.Connection(), producer, 1, "one"), Some.Batch(Some.Connection(), producer, 2, "two")];
        using var traced = PooledFrame.Encode(batches, signer: null, trace);
        var plain = Some.Frame(batches);
        var flags = plain.AsSpan().CommonPrefixLength(traced.Bytes.Span);
        var withoutId = traced.Bytes.ToArray();
        withoutId.AsSpan(flags + 1, 16).Clear();
        var secondBatch = plain.Length - Some.Frame(batches[1]).Length + flags;
        var behind = (byte[])[.. plain[..secondBatch], (byte)(plain[secondBatch] | 0x04), .. traced.Bytes.Slice(flags + 1, 25).Span, .. plain[(secondBatch + 1)..]];

        using var received = FrameReader.Read(traced.Bytes);

        Assert.Equal(plain.Length + 25, traced.Bytes.Length);
        Assert.Equal(2, received.Batches.Length);
        Assert.Throws<FrameFormatException>(() => FrameReader.Read(withoutId));
        Assert.Contains("behind its first batch", Assert.Throws<FrameFormatException>(() => FrameReader.Read(behind)).Message, StringComparison.Ordinal);
    }

    private static void ThrowFor(Instrument instrument)
    {
        if (instrument.Name == "messaging.process.duration")
            throw new NotSupportedException();
    }

    private BatchReceiver Receiver(IBatchTransport next) =>
        new(next, new BatchReceiverOptions { MessagingSystem = "rabbitmq", QueueName = _queue }, meterFactory: MeterFactory);

    private FrameTransport Broker(IBatchTransport next)
    {
        var receiver = Receiver(next);
        return new FrameTransport((frame, cancellationToken) => receiver.ReceiveAsync(frame.Bytes, cancellationToken));
    }

    private MeterListener Listen(List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)> measured)
    {
        var listener = new MeterListener { InstrumentPublished = (instrument, own) => own.EnableMeasurementEvents(instrument) };
        listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) => Add(instrument, value, tags));
        listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => Add(instrument, value, tags));
        listener.Start();
        return listener;

        void Add(Instrument instrument, double value, ReadOnlySpan<KeyValuePair<string, object?>> tags)
        {
            foreach (var tag in tags)
            {
                if (Equals(tag.Value, _queue))
                    measured.Add((instrument.Name, value, tags.ToArray()));
            }
        }
    }

    private ActivityListener ListenToSpans()
    {
        var listener = new ActivityListener
        {
            ShouldListenTo = static source => source.Name is "BatchKit",
            Sample = static (ref ActivityCreationOptions<ActivityContext> _) => ActivitySamplingResult.AllDataAndRecorded,
            ActivityStopped = Collect,
        };
        ActivitySource.AddActivityListener(listener);
        return listener;
    }

    private void Collect(Activity activity)
    {
        if (activity.DisplayName != $"send {_route}" && activity.DisplayName != $"process {_queue}")
            return;
        lock (_spans)
            _spans.Add(activity);
    }

    /// <summary>Remembers the span that was current at its last send.</summary>
    private sealed class CurrentActivityTransport : IBatchTransport
    {
        public Activity? Current { get; private set; }

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            Current = Activity.Current;
            return default;
        }
    }

    private sealed class CallingExporter(Action<Activity> collect) : BaseExporter<Activity>
    {
        public override ExportResult Export(in Batch<Activity> batch)
        {
            foreach (var activity in batch)
                collect(activity);
            return ExportResult.Success;
        }
    }
}
