using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>What a receiver gets from a session that was there before its connection.</summary>
public sealed class MqttResumedSessionTests(MosquittoFixture fixture)
{
    private const int Receiving = 212;

    private readonly CollectingTransport _arrived = new();

    [Theory]
    [InlineData(MqttVersion.V5, "mqttv5")]
    [InlineData(MqttVersion.V311, "mqttv311")]
    public async Task A_backlog_of_QoS_2_that_another_program_has_left_arrives_and_what_comes_behind_it_too(MqttVersion version, string option)
    {
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        var server = await fixture.GetAsync();
        var topic = Some.Name("topic");
        var options = MqttSome.Below(server, topic, options => options.Version = version);
        string[] lasting = version == MqttVersion.V5 ? ["-x", "600"] : [];
        await MosquittoProgram.SubscribeAsync(server, ["-V", option, "-i", $"{options.ClientId}-receiver", "-c", .. lasting, "-q", "2", "-t", $"{topic}/#", "-E"]);
        await MosquittoProgram.PublishAsync(server, string.Join('\n', Some.Lines(100)), "-q", "2", "-t", $"{topic}/a", "-l");

        await using var receiver = await MqttEnds.StartAsync(options, _arrived);
        await _arrived.WaitForMessagesAsync(100);
        await MosquittoProgram.PublishAsync(server, "", "-q", "1", "-t", $"{topic}/a", "-m", "the end");
        await _arrived.WaitForMessagesAsync(101);

        Assert.Equal([.. Some.Lines(100), "the end"], _arrived.Texts);
        Assert.Null(receiver.Fault);
    }

    [Fact]
    public async Task Retained_messages_arrive_once_however_often_the_connection_is_lost()
    {
        var server = await fixture.GetAsync();
        var topic = Some.Name("topic");
        await using var publisher = new MqttTransport(MqttSome.Options(server));
        await PublishAsync([.. Some.Lines(20).Select((line, number) => new MqttMessage($"{topic}/{number}", Some.Bytes(line)) { Retain = true })]);
        await using var proxy = TcpProxy.Start("127.0.0.1", server.Port);
        using var log = new LogCollector();
        var options = MqttSome.Below(server, topic, options => options.Server = new Uri($"mqtt://127.0.0.1:{proxy.Port}"));
        // With QoS 1 the broker might send a message again whose acknowledgement was lost.
        options.Subscriptions[0].QualityOfService = MqttQualityOfService.AtMostOnce;
        await using var receiver = new MqttReceiver(options, MqttEnds.Node, new BatchReceiver(_arrived), logger: new Logger<MqttReceiver>(log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await _arrived.WaitForMessagesAsync(20);

        for (var loss = 1; loss <= 3; loss++)
        {
            proxy.ResetAll();
            await log.WaitForAsync(Receiving, 1 + loss);
            await PublishAsync(new MqttMessage($"{topic}/new", Some.Bytes($"after {loss}")));
            await _arrived.WaitForMessagesAsync(20 + loss);
        }

        Assert.Equal(["after 1", "after 2", "after 3"], _arrived.Texts.Skip(20));

        async Task PublishAsync(params MqttMessage[] messages) => Assert.True((await publisher.PublishManyAsync(messages).WithinDeadline()).IsSuccess);
    }
}
