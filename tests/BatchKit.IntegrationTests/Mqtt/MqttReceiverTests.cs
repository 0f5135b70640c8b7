using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Network;
using static BatchKit.IntegrationTests.Mqtt.MqttEnds;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>Receiving from topics, from clients that are not ours too.</summary>
public sealed class MqttReceiverTests(MosquittoFixture fixture)
{
    private readonly CollectingTransport _arrived = new();
    private readonly string _topic = Some.Name("topic");

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task What_another_client_publishes_arrives_in_order(MqttVersion version)
    {
        var server = await ServerAsync();
        await using var receiver = await StartAsync(MqttSome.Below(server, _topic, options => options.Version = version), _arrived);

        await PublishLinesAsync(server, count: 2000);
        await _arrived.WaitForMessagesAsync(2000);

        Assert.Equal(Some.Lines(2000), _arrived.TextsFor(OutputHandle.Named($"{_topic}/a")));
    }

    [Fact]
    public async Task Messages_with_QoS_0_arrive()
    {
        var server = await ServerAsync();
        await using var receiver = await StartAsync(
            MqttSome.Options(server, options => options.Subscriptions.Add(new MqttSubscription { Filter = $"{_topic}/a", QualityOfService = MqttQualityOfService.AtMostOnce })), _arrived);

        await PublishLinesAsync(server, count: 100);
        await _arrived.WaitForMessagesAsync(100);

        Assert.Equal(Some.Lines(100), _arrived.Texts);
    }

    [Fact]
    public async Task A_message_that_asks_for_QoS_2_arrives_with_QoS_1()
    {
        var server = await ServerAsync();
        await using var receiver = await StartAsync(MqttSome.Below(server, _topic), _arrived);

        await MosquittoProgram.PublishAsync(server, "", "-q", "2", "-t", $"{_topic}/a", "-m", "twice");
        await _arrived.WaitForMessagesAsync(1);

        Assert.Null(receiver.Fault);
    }

    [Fact]
    public async Task A_retained_message_arrives_when_the_receiver_subscribes()
    {
        var server = await ServerAsync();
        await MosquittoProgram.PublishAsync(server, "", "-q", "1", "-r", "-t", $"{_topic}/a", "-m", "kept");

        await using var receiver = await StartAsync(MqttSome.Below(server, _topic), _arrived);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(["kept"], _arrived.Texts);
    }

    [Fact]
    public async Task A_shared_subscription_shares_messages_out()
    {
        var server = await ServerAsync();
        var second = new CollectingTransport();
        await using var receiver = await StartAsync(Shared(), _arrived);
        await using var other = await StartAsync(Shared(), second);

        await PublishLinesAsync(server, count: 400);
        await Until.TrueAsync(() => _arrived.MessageCount + second.MessageCount >= 400);

        Assert.Equal(Some.Lines(400).Order(StringComparer.Ordinal), _arrived.Texts.Concat(second.Texts).Order(StringComparer.Ordinal));
        Assert.All([_arrived, second], arrived => Assert.InRange(arrived.MessageCount, 100, 300));

        MqttOptions Shared() => MqttSome.Options(server, options => options.Subscriptions.Add(new MqttSubscription { Filter = $"$share/workers/{_topic}/#" }));
    }

    [Fact]
    public async Task A_message_is_acknowledged_only_when_the_next_hop_has_it()
    {
        var server = await ServerAsync();
        var proxy = TcpProxy.Start(server.Host, server.Port);
        var clientId = Some.Name("test");
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        var killed = await StartAsync(Options(new Uri($"mqtt://127.0.0.1:{proxy.Port}")), slow);
        await PublishLinesAsync(server, count: 1);
        await stalled.EnteredAsync();

        // No goodbye reaches the broker, as when a process is killed.
        await proxy.DisposeAsync();
        await killed.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();
        await using var next = await StartAsync(Options(server.Address), _arrived);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(Some.Lines(1), _arrived.Texts);

        MqttOptions Options(Uri address) => MqttSome.Options(address, options =>
        {
            options.ClientId = clientId;
            options.Subscriptions.Add(new MqttSubscription { Filter = $"{_topic}/#" });
        });
    }

    [Theory]
    [InlineData(MqttVersion.V5)]
    [InlineData(MqttVersion.V311)]
    public async Task A_fixed_client_id_keeps_the_session_over_a_restart_of_the_receiver(MqttVersion version)
    {
        var server = await ServerAsync();
        var options = MqttSome.Below(server, _topic, options => options.Version = version);
        await (await StartAsync(options, _arrived)).DisposeAsync();

        await PublishLinesAsync(server, count: 10);
        await using var again = await StartAsync(options, _arrived);
        await _arrived.WaitForMessagesAsync(10);

        Assert.Equal(Some.Lines(10), _arrived.Texts);
    }

    [Fact]
    public async Task A_drawn_client_id_leaves_no_session_behind()
    {
        var server = await ServerAsync();
        var options = MqttSome.Below(server, _topic, options => options.ClientId = null);
        await (await StartAsync(options, _arrived)).DisposeAsync();

        await PublishLinesAsync(server, count: 1);
        await using var again = await StartAsync(options, _arrived);
        await PublishLinesAsync(server, count: 1, text: "later");
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(["later 0"], _arrived.Texts);
    }

    [Fact]
    public async Task A_receiver_that_starts_without_a_broker_says_so_and_receives_when_there_is_one()
    {
        await using var server = await OwnServerAsync();
        await server.StopAsync();
        await using var receiver = await MakeAsync(MqttSome.Below(server, _topic), _arrived);
        var fault = receiver.Fault;

        await server.StartAsync();
        await Until.TrueAsync(() => receiver.Fault is null);
        await PublishLinesAsync(server, count: 1);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Contains($":{server.Port}", fault, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_broker_that_restarts_gives_again_what_was_not_acknowledged()
    {
        await using var server = await OwnServerAsync();
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        await using var receiver = await StartAsync(MqttSome.Below(server, _topic), slow);
        await PublishLinesAsync(server, count: 1);
        await stalled.EnteredAsync();
        await PublishLinesAsync(server, count: 50, text: "more");

        await server.StopAsync();
        stalled.Release();
        await server.StartAsync();
        string[] all = ["line 0", .. Enumerable.Range(0, 50).Select(line => $"more {line}")];
        await Until.TrueAsync(() => SinceLast("line 0").LastOrDefault() == "more 49" && _arrived.Texts.Count(text => text == "line 0") == 2);

        Assert.Equal(all, _arrived.Texts.Distinct());
        Assert.Equal(all, SinceLast("line 0"));

        IEnumerable<string> SinceLast(string text) => _arrived.Texts.Skip(_arrived.Texts.ToList().LastIndexOf(text));
    }

    [Fact]
    public async Task A_stop_in_the_middle_of_a_stream_loses_nothing()
    {
        var server = await ServerAsync();
        var options = MqttSome.Below(server, _topic);
        var receiver = await StartAsync(options, _arrived);

        var publishing = PublishLinesAsync(server, count: 3000);
        await _arrived.WaitForMessagesAsync(100);
        await receiver.DisposeAsync();
        await publishing;
        await using var again = await StartAsync(options, _arrived);
        await _arrived.WaitForMessagesAsync(3000);

        Assert.Equal(Some.Lines(3000), _arrived.Texts);
    }

    private static async Task<MosquittoServer> OwnServerAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        return await MosquittoServer.StartOwnAsync();
    }

    private async Task<MosquittoServer> ServerAsync()
    {
        RequiredServer.SkipWhen(MosquittoProgram.WhyMissing);
        return await fixture.GetAsync();
    }

    private Task PublishLinesAsync(MosquittoServer server, int count, string text = "line") =>
        MosquittoProgram.PublishAsync(server, string.Concat(Enumerable.Range(0, count).Select(line => $"{text} {line}\n")), "-q", "1", "-l", "-t", $"{_topic}/a");
}
