using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using static BatchKit.IntegrationTests.Mqtt.MqttEnds;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Envelope mode beyond the rules that every transport keeps.</summary>
public sealed class MqttEnvelopeTests(MosquittoFixture fixture)
{
    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _player = Some.Connection(Node);

    [Fact]
    public async Task Groups_reach_every_node_once_and_connections_their_own()
    {
        var options = MqttSome.Envelope(await fixture.GetAsync());
        var second = new CollectingTransport();
        await using var receiver = await StartAsync(options, _arrived);
        options.ClientId = Some.Name("test");
        await using var other = await StartAsync(options, second, node: 2);
        await using var transport = new MqttTransport(options);
        var producer = Some.Producer();

        await transport.SendAsync(
            new[]
            {
                Some.Batch(_player, producer, 1, "to 1"),
                Some.Batch(Some.Group(), producer, 2, "to all"),
                Some.Batch(Some.Connection(2), producer, 3, "to 2"),
                Some.Batch(_player, producer, 4, "to 1 again"),
            },
            CancellationToken.None);
        await _arrived.WaitForMessagesAsync(3);
        await second.WaitForMessagesAsync(2);

        Assert.Equal(["to 1", "to all", "to 1 again"], _arrived.Texts);
        Assert.Equal(["to all", "to 2"], second.Texts);
    }

    [Fact]
    public async Task A_message_that_is_no_frame_is_counted_and_acknowledged_and_those_behind_it_arrive()
    {
        var server = await fixture.GetAsync();
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        var options = MqttSome.Envelope(server);
        var receiver = await StartAsync(options, _arrived);
        await using var transport = new MqttTransport(options);

        await MosquittoProgram.PublishAsync(server, "", "-q", "1", "-t", $"{options.EnvelopePrefix}/node/{Node}", "-m", "no frame");
        await SendLinesAsync(transport, _player, count: 1);
        await _arrived.WaitForMessagesAsync(1);
        await receiver.DisposeAsync();
        await using var next = await StartAsync(options, _arrived);
        await SendLinesAsync(transport, _player, count: 1, start: 1);
        await _arrived.WaitForMessagesAsync(2);

        Assert.Equal(1, receiver.GetStatistics().MalformedFrames);
        Assert.Equal(0, next.GetStatistics().MalformedFrames);
        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public async Task A_lost_connection_is_made_again_and_what_comes_twice_is_dropped()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = MqttSome.Envelope(server);
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        var receiving = MqttSome.Options(new Uri($"mqtt://127.0.0.1:{proxy.Port}"), over => over.EnvelopePrefix = options.EnvelopePrefix);
        await using var receiver = await StartAsync(receiving, slow);
        await using var transport = new MqttTransport(options);
        await SendLinesAsync(transport, _player, count: 10);
        await stalled.EnteredAsync();

        proxy.ResetAll();
        stalled.Release();
        await SendLinesAsync(transport, _player, count: 10);
        await _arrived.WaitForMessagesAsync(20);

        Assert.Equal([.. Some.Lines(10), .. Some.Lines(10)], _arrived.Texts);
        Assert.True(receiver.GetStatistics().DuplicateMessages > 0);
    }

    [Fact]
    public async Task A_stop_lets_what_is_in_hand_finish_and_acknowledges_it()
    {
        var options = MqttSome.Envelope(await fixture.GetAsync());
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        await using var receiver = await StartAsync(options, slow);
        await using var transport = new MqttTransport(options);
        await SendLinesAsync(transport, _player, count: 1);
        await stalled.EnteredAsync();

        var stopping = receiver.StopAsync(CancellationToken.None);
        stalled.Release();
        await stopping.WithinDeadline();
        await using var next = await StartAsync(options, _arrived);
        await SendLinesAsync(transport, _player, count: 1, start: 1);
        await _arrived.WaitForMessagesAsync(2);

        Assert.Equal(Some.Lines(2), _arrived.Texts);
        Assert.Equal("The receiver has stopped.", receiver.Fault);
    }

    [Fact]
    public async Task A_stop_abandons_a_next_hop_that_hangs_and_the_next_receiver_gets_the_frame()
    {
        var options = MqttSome.Envelope(await fixture.GetAsync(), options => options.StopTimeout = TimeSpan.FromMilliseconds(50));
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        await using var receiver = await StartAsync(options, slow);
        await using var transport = new MqttTransport(options);
        await SendLinesAsync(transport, _player, count: 1);
        await stalled.EnteredAsync();

        await receiver.StopAsync(CancellationToken.None).WithinDeadline();
        await using var next = await StartAsync(options, _arrived);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }
}
