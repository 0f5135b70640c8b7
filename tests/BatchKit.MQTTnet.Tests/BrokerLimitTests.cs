using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Formatter;

namespace BatchKit.MQTTnet.Tests;

/// <summary>Messages for which a broker would end the connection, because its answer to the connect forbids them.</summary>
public sealed class BrokerLimitTests : MosquittoTest
{
    private int _disconnects;

    private protected override MosquittoServerOptions ServerOptions { get; } = new() { Lines = ["retain_available false"] };

    [Fact]
    public async Task A_message_that_the_broker_does_not_support_is_refused_alone()
    {
        using var transport = await ConnectAsync(MqttProtocolVersion.V500);
        var aliased = Messages.One("topic", "x");
        aliased.TopicAlias = 60_000;

        var report = await transport.PublishManyAsync((MqttApplicationMessage[])[Messages.One("topic", "x"), Messages.One("topic", "x", retain: true), aliased, Messages.One("topic", "x")]).AsTask().WithinDeadline();

        Assert.Equal([PublishManyOutcome.Succeeded, PublishManyOutcome.Refused, PublishManyOutcome.Refused, PublishManyOutcome.Succeeded], Enumerable.Range(0, 4).Select(index => report[index].Outcome));
        Assert.Equal(0, _disconnects);
    }

    [Fact]
    public async Task A_batch_that_the_broker_does_not_support_is_refused_alone()
    {
        using var transport = await ConnectAsync(MqttProtocolVersion.V500);
        var producer = Some.Producer();

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(new[]
        {
            Some.Batch(OutputHandle.Named("topic"), producer, 1, "x"),
            MessageBatch.Create(OutputHandle.Named("topic"), producer, 2, Some.Message("x", new MessageHeader { IsRetained = true })),
            Some.Batch(OutputHandle.Named("topic"), producer, 3, "x"),
        }, CancellationToken.None).AsTask().WithinDeadline());

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], failure.Outcomes);
        Assert.Contains("retained", failure.Message, StringComparison.Ordinal);
        Assert.Equal(0, _disconnects);
    }

    // Its answer to a connect names no limits.
    [Fact]
    public async Task Before_MQTT_5_nothing_is_refused()
    {
        using var transport = await ConnectAsync(MqttProtocolVersion.V311);

        var report = await transport.PublishManyAsync((MqttApplicationMessage[])[Messages.One("topic", "x", quality: 2)]).AsTask().WithinDeadline();

        Assert.True(report.IsSuccess);
    }

    private async Task<MqttClientTransport> ConnectAsync(MqttProtocolVersion version)
    {
        var client = MakeClient(isBatched: true);
        client.DisconnectedAsync += _ => Task.FromResult(Interlocked.Increment(ref _disconnects));
        var transport = new MqttClientTransport(client);
        await client.ConnectAsync(new MqttClientOptionsBuilder().WithProtocolVersion(version).WithClientId(Some.Name("client")).WithTcpServer(Server.Host, Server.Port).Build()).WithinDeadline();
        return transport;
    }
}
