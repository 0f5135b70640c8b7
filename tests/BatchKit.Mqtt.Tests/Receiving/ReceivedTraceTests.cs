using BatchKit.Diagnostics;
using System.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Receiving;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Tests.Receiving;

/// <summary>The traces of messages that arrive in one read.</summary>
public sealed class ReceivedTraceTests : IDisposable
{
    private readonly SpanCollector _spans = new();
    private readonly TopicArrivals _arrivals = new(node: 1, new ReceiverLog(GuardedLogger.Of(null), TimeProvider.System), new HeldFrame(TimeProvider.System));
    private readonly CollectingTransport _next = new();
    private readonly string _queue = Some.Name("queue");

    public void Dispose() => _spans.Dispose();

    [Fact]
    public async Task Messages_of_several_traces_are_delivered_together_below_a_span_that_links_to_each()
    {
        var (first, second) = (Context(), Context());
        Add("a", Text(first));
        Add("b", Text(second));
        Add("b", Text(second));

        await DeliverAsync();

        var links = await _spans.WaitForAsync("process", second);
        var delivery = await _spans.WaitForAsync($"process {_queue}", links.Context);
        Assert.Equal([first.SpanId, second.SpanId], SpanCollector.Links(links));
        Assert.Equal(3, delivery.GetTagItem("messaging.batch.message_count"));
        Assert.Equal(3, _next.Messages.Count);
    }

    [Theory]
    [InlineData("")]
    [InlineData("00-00000000000000000000000000000000-b7ad6b7169203331-01")]
    [InlineData("no trace")]
    [InlineData("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-and more of it")]
    public async Task A_malformed_trace_is_a_property_like_any_other(string text)
    {
        var valid = Context();
        Add("a", text);
        Add("a", Text(valid));

        await DeliverAsync();

        Assert.Equal(valid.TraceId, (await _spans.WaitForAsync($"process {_queue}", valid)).TraceId);
        Assert.Equal(text, Assert.Single(_next.Messages[0].Header!.Properties).Value);
    }

    [Fact]
    public async Task The_trace_of_a_message_that_the_broker_had_kept_is_not_continued()
    {
        var (kept, current) = (Context(), Context());
        Add("a", Text(kept), retain: true);
        Add("a", Text(current));

        await DeliverAsync();

        Assert.Equal(current.TraceId, (await _spans.WaitForAsync($"process {_queue}", current)).TraceId);
    }

    private static ActivityContext Context() => new(ActivityTraceId.CreateRandom(), ActivitySpanId.CreateRandom(), ActivityTraceFlags.Recorded);

    private static string Text(ActivityContext context) => $"00-{context.TraceId}-{context.SpanId}-01";

    private async Task DeliverAsync()
    {
        Activity.Current = null;
        await _arrivals.DeliverAsync(new BatchReceiver(_next, new BatchReceiverOptions { FilterDuplicates = false, QueueName = _queue }), CancellationToken.None);
    }

    private void Add(string topic, string trace, bool retain = false)
    {
        const byte userProperty = 0x26;
        byte[] properties = [userProperty, 0, 11, .. "traceparent"u8, 0, (byte)trace.Length, .. Some.Bytes(trace)];
        _arrivals.Add(new ReceivedPublish { Topic = Some.Bytes(topic), Payload = "message"u8, Retain = retain, Properties = properties, HasUserProperties = true });
    }
}
