using System.Diagnostics;
using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>The trace of a send over plain topics.</summary>
public sealed class MqttTraceTests(MosquittoFixture fixture) : IDisposable
{
    private readonly string _topic = Some.Name("topic");
    private readonly SpanCollector _spans = new();
    private readonly CollectingTransport _arrived = new();

    public void Dispose() => _spans.Dispose();

    [Fact]
    public async Task The_span_of_a_delivery_is_a_child_of_the_span_that_published()
    {
        var server = await fixture.GetAsync();
        await using var receiver = await StartAsync(server);
        await using var transport = new MqttTransport(MqttSome.Below(server, _topic, options => options.PublishesTraceContext = true));
        var own = new MessageHeader { Properties = [new("unit", "K")] };

        var batch = await _spans.InSpanAsync(async () =>
        {
            Activity.Current!.TraceStateString = "vendor=1";
            await transport.SendAsync(new[] { MessageBatch.Create(OutputHandle.Named(_topic), Some.Producer(), 1, [Some.Message("plain"), Some.Message("with a property", own)]) }, CancellationToken.None);
        });
        var received = await _spans.WaitForAsync("process", batch);
        var delivery = await _spans.WaitForAsync("process mqtt", received.Context);
        var call = await _spans.InSpanAsync(async () => await transport.PublishManyAsync(new[] { new MqttMessage(_topic, Some.Bytes("called")) }));
        var called = await _spans.WaitForAsync("process mqtt", call);

        Assert.Equal((batch.TraceId, call.TraceId), (delivery.TraceId, called.TraceId));
        Assert.Equal("vendor=1", delivery.TraceStateString);
        await _arrived.WaitForMessagesAsync(3);
        // Besides "sampled", newer versions of the platform say that the id is random.
        KeyValuePair<string, string>[] trace = [new("traceparent", $"00-{batch.TraceId}-{batch.SpanId}-{(int)batch.TraceFlags:x2}"), new("tracestate", "vendor=1")];
        Assert.Equal(trace, _arrived.Messages[0].Header!.Properties);
        Assert.Equal([new("unit", "K"), .. trace], _arrived.Messages[1].Header!.Properties);
    }

    [Fact]
    public async Task A_trace_of_the_applications_own_is_kept()
    {
        var server = await fixture.GetAsync();
        await using var receiver = await StartAsync(server);
        await using var transport = new MqttTransport(MqttSome.Below(server, _topic, options => options.PublishesTraceContext = true));
        KeyValuePair<string, string> own = new("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");

        await _spans.InSpanAsync(async () => await transport.PublishManyAsync(new[] { new MqttMessage(_topic, Some.Bytes("called")) { UserProperties = new[] { own } } }));
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal([own], _arrived.Messages[0].Header!.Properties);
    }

    [Theory]
    [InlineData(false, MqttVersion.V5)]
    [InlineData(true, MqttVersion.V311)]
    public async Task Without_the_setting_and_in_MQTT_3_messages_carry_nothing(bool isSet, MqttVersion version)
    {
        var server = await fixture.GetAsync();
        await using var receiver = await StartAsync(server);
        await using var transport = new MqttTransport(MqttSome.Below(server, _topic, options => (options.PublishesTraceContext, options.Version) = (isSet, version)));

        await _spans.InSpanAsync(async () => await transport.PublishManyAsync(new[] { new MqttMessage(_topic, Some.Bytes("called")) }));
        await _arrived.WaitForMessagesAsync(1);

        Assert.Null(_arrived.Messages[0].Header);
    }

    private async Task<MqttReceiver> StartAsync(MosquittoServer server)
    {
        var receiving = new BatchReceiverOptions { FilterDuplicates = false, MessagingSystem = "mqtt", QueueName = "mqtt" };
        var receiver = new MqttReceiver(MqttSome.Below(server, _topic), node: 2, new BatchReceiver(_arrived, receiving));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return receiver;
    }
}
