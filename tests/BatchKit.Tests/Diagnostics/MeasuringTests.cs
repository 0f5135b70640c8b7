using System.Diagnostics;
using System.Diagnostics.Metrics;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Diagnostics;

public sealed class MeasuringTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly string _name = Some.Name("buffer");

    [Fact]
    public async Task Instruments_follow_the_messaging_conventions_count_what_happened_and_carry_no_handle()
    {
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true);
        await using var buffer = new OutputBuffer([new OutputRoute("broker", transport)], name: _name);
        var measured = new List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)>();
        using var listener = Listen(measured);
        var handle = Some.Group();

        using (buffer.BeginBufferingScope(handle))
        {
            for (var line = 0; line < 10; line++)
                buffer.Write(handle, "line"u8);
        }

        listener.RecordObservableInstruments();
        Assert.Equal(10, measured.Where(one => one.Instrument == "messaging.client.sent.messages").Sum(one => one.Value));
        Assert.Single(measured, one => one.Instrument == "messaging.client.operation.duration");
        Assert.Contains(measured, one => one.Instrument == "batchkit.messages.accepted" && one.Value == 10);
        Assert.Contains(measured, one => one.Instrument == "batchkit.messages.acknowledged" && one.Value == 10);
        Assert.Contains(measured, one => one.Instrument == "batchkit.batches" && one.Value == 1 && one.Tags.Any(tag => Equals(tag.Value, nameof(FlushReason.ScopeClosed))));
        Assert.Contains(measured[0].Tags, tag => tag.Key == "messaging.destination.name" && Equals(tag.Value, "broker"));
        Assert.DoesNotContain(measured.SelectMany(one => one.Tags), tag => $"{tag.Value}".Contains(handle.Name!, StringComparison.Ordinal));
    }

    [Theory]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task What_the_meter_counts_as_accepted_is_settled_or_pending_when_a_full_buffer_drops(OverflowPolicy policy)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { Overflow = policy, MaxBufferedBytes = 1024, MaxMessageBytes = 400, MaxBatchBytes = 400 }, name: _name);
        var measured = new List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)>();
        using var listener = Listen(measured);
        buffer.Write(Some.Connection(), new byte[400]);
        await stalled.EnteredAsync();
        for (var write = 0; write < 10; write++)
            buffer.Write(Some.Connection(), new byte[400]);

        listener.RecordObservableInstruments();
        var (accepted, refused) = (Sum("accepted"), Sum("refused"));
        Assert.Equal(11, accepted + refused);
        Assert.Equal(policy == OverflowPolicy.DropNewest, refused > 0);
        Assert.Equal(accepted, Sum("acknowledged") + Sum("failed") + Sum("dropped") + Sum("superseded") + Sum("pending"));
        Assert.Equal(buffer.GetStatistics().DroppedMessages, Sum("dropped"));
        stalled.Release();

        double Sum(string counter) => measured.Where(one => one.Instrument == $"batchkit.messages.{counter}").Sum(static one => one.Value);
    }

    [Fact]
    public async Task A_send_that_arrives_at_the_second_try_is_one_operation_without_an_error()
    {
        var clock = new ManualTimeProvider();
        var transport = new ScriptedTransport(_arrived, sendsWithoutBlocking: true).Fail();
        await using var buffer = new OutputBuffer(transport, name: _name, timeProvider: clock);
        var measured = new List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)>();
        using var listener = Listen(measured);

        buffer.Write(Some.Connection(), "line"u8);
        await clock.WaitForTimersAsync(2);
        clock.Advance(TimeSpan.FromMilliseconds(100));
        await buffer.FlushAsync().WithinDeadline();
        await buffer.DisposeAsync();

        var duration = Assert.Single(measured, one => one.Instrument == "messaging.client.operation.duration");
        Assert.DoesNotContain(duration.Tags, tag => tag.Key == "error.type");
    }

    [Fact]
    public async Task A_send_that_breaks_unexpectedly_is_measured_with_its_error()
    {
        await using var buffer = new OutputBuffer(new BreakingTransport(), name: _name);
        var measured = new List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)>();
        using var listener = Listen(measured);
        var handle = Some.Connection();

        buffer.Write(handle, "line"u8);
        await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(handle).AsTask().WithinDeadline());

        var duration = Assert.Single(measured, one => one.Instrument == "messaging.client.operation.duration");
        Assert.Contains(duration.Tags, static tag => tag.Key == "error.type" && Equals(tag.Value, typeof(NotSupportedException).FullName));
    }

    [Fact]
    public async Task A_traced_send_links_to_its_writers_once_each_and_no_more_than_a_span_can_carry()
    {
        await using var buffer = new OutputBuffer([new OutputRoute(_name, _arrived)]);
        using var source = new ActivitySource(_name);
        var sends = new List<Activity>();
        using var listener = new ActivityListener
        {
            ShouldListenTo = listened => listened.Name is BatchKitTracing.SourceName || listened.Name == _name,
            Sample = (ref ActivityCreationOptions<ActivityContext> _) => ActivitySamplingResult.AllDataAndRecorded,
            ActivityStopped = activity =>
            {
                if (activity.OperationName == $"send {_name}" || activity.DisplayName == $"send {_name}")
                    sends.Add(activity);
            },
        };
        ActivitySource.AddActivityListener(listener);

        using (buffer.BeginBufferingScope())
        {
            for (var number = 0; number < 300; number++)
            {
                using var writer = source.StartActivity("writes");
                buffer.Write(OutputHandle.Connection(node: 1, (number / 30) + 1), "line"u8);
                buffer.Write(OutputHandle.Connection(node: 1, (number / 30) + 1), "line"u8);
            }
        }

        var send = Assert.Single(sends);
        Assert.Equal(600, send.GetTagItem("messaging.batch.message_count"));
        Assert.InRange(send.Links.Count(), 30, 128);
        Assert.Equal(send.Links.Count(), send.Links.Select(link => link.Context.SpanId).Distinct().Count());
        Assert.DoesNotContain(send.TagObjects, tag => $"{tag.Value}".Contains("1:", StringComparison.Ordinal));
    }

    private MeterListener Listen(List<(string Instrument, double Value, KeyValuePair<string, object?>[] Tags)> measured)
    {
        var listener = new MeterListener
        {
            InstrumentPublished = (instrument, itself) =>
            {
                if (instrument.Meter.Name == BatchKitMetrics.MeterName && instrument.Meter.Tags?.Any(tag => Equals(tag.Value, _name)) == true)
                    itself.EnableMeasurementEvents(instrument);
            },
        };
        listener.SetMeasurementEventCallback<long>((instrument, value, tags, _) => measured.Add((instrument.Name, value, tags.ToArray())));
        listener.SetMeasurementEventCallback<double>((instrument, value, tags, _) => measured.Add((instrument.Name, value, tags.ToArray())));
        listener.Start();
        return listener;
    }

    /// <summary>Its limit throws after the first send.</summary>
    private sealed class BreakingTransport : IBatchTransport
    {
        private bool _isBroken;

        public int MaxBatchBytes => _isBroken ? throw new NotSupportedException("The transport is broken.") : int.MaxValue;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            _isBroken = true;
            return default;
        }
    }
}
