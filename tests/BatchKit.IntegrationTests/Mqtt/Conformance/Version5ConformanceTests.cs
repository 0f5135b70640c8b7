using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Mqtt.Conformance;

/// <summary>What only MQTT 5 has.</summary>
[Trait("Lane", "night: each scenario at four brokers, over each way to connect")]
[Collection(ConformanceLane.Collection)]
public sealed class Version5ConformanceTests(ConformanceBrokers brokers) : ConformanceLane(brokers)
{
    public static TheoryData<string, string> NewCases
    {
        get
        {
            var cases = new TheoryData<string, string>();
            foreach (var (broker, scheme, version) in Cases.Select(static row => row.Data))
            {
                if (version == MqttVersion.V5)
                    cases.Add(broker, scheme);
            }

            return cases;
        }
    }

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task All_properties_of_a_message_arrive(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();

        await scene.PublishAsync(scene.Message("text") with
        {
            ContentType = "text/plain",
            ResponseTopic = "answers/7",
            CorrelationData = new byte[] { 0, 255 },
            UserProperties = new KeyValuePair<string, string>[] { new("name", "ä"), new("name", "b"), new("empty", "") },
        });

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        var header = arrived.Messages[0].Header!;
        Assert.Equal(("text/plain", "answers/7"), (header.ContentType, header.ReplyTo));
        Assert.Equal(new byte[] { 0, 255 }, header.CorrelationData);
        Assert.Equal([new("name", "ä"), new("name", "b"), new("empty", "")], header.Properties);
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task A_message_above_the_clients_largest_packet_is_left_out(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var arrived = await scene.ReceiveAsync(configure: static options => options.MaxPacketBytes = 4096);

        await scene.PublishAsync(scene.Message("before"), new MqttMessage($"{scene.Topic}/large", new byte[8192]), scene.Message("behind"));

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["before", "behind"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task No_local_leaves_out_what_the_connection_has_published_itself(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var arrived = new CollectingTransport();
        var transport = scene.Sender(options =>
        {
            options.SharesConnection = true;
            options.Subscriptions.Add(new MqttSubscription { Filter = $"{scene.Topic}/#", NoLocal = true });
        });
        await using var receiver = await scene.ReceiveSharedAsync(transport, arrived);

        await ConformanceScene.PublishAsync(transport, scene.Message("own"));
        await scene.PublishAsync(scene.Message("other's"));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["other's"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task Retain_as_published_keeps_the_flag_for_who_was_there_before(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var arrived = await scene.ReceiveAsync(subscribe: static subscription => subscription.RetainAsPublished = true);
        var plain = await scene.ReceiveAsync();

        await scene.PublishAsync(scene.Message("retained") with { Retain = true });

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        await plain.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal((true, false), (arrived.Messages[0].Header?.IsRetained ?? false, plain.Messages[0].Header?.IsRetained ?? false));
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task A_subscription_may_ask_for_no_retained_messages(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        await scene.PublishAsync(scene.Message("retained") with { Retain = true });

        var arrived = await scene.ReceiveAsync(subscribe: static subscription => subscription.RetainHandling = MqttRetainHandling.DoNotSend);
        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task A_session_that_is_resumed_gets_retained_messages_once(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        await scene.PublishAsync(scene.Message("retained") with { Retain = true });
        var arrived = new CollectingTransport();
        var clientId = Some.Name("session");
        void Configure(MqttOptions options) => options.ClientId = clientId;
        var first = await scene.ReceiveAsync(arrived, configure: Configure, subscribe: static subscription => subscription.RetainHandling = MqttRetainHandling.SendIfNew);
        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        await first.DisposeAsync();

        await scene.ReceiveAsync(arrived, configure: Configure, subscribe: static subscription => subscription.RetainHandling = MqttRetainHandling.SendIfNew);
        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["retained", "end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task A_session_whose_time_is_up_has_nothing_for_its_client(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var clientId = Some.Name("session");
        var address = scene.Options().Server;
        var others = await scene.ReceiveAsync($"{scene.Topic}/will");
        await using (var proxy = TcpProxy.Start(address.Host, address.Port))
        {
            var transport = scene.Sender(options =>
            {
                (options.Server, options.ClientId, options.SharesConnection) = (new UriBuilder(address) { Port = proxy.Port }.Uri, clientId, true);
                (options.SessionExpiry, options.ReconnectDelay, options.MaxReconnectDelay) = (TimeSpan.FromSeconds(1), TimeSpan.FromMinutes(1), TimeSpan.FromMinutes(1));
                // A will that would wait for longer is published at the session's end (MQTT 5, section 3.1.3.2.2).
                options.Will = new MqttWill(scene.Message("the session's end", "will"), TimeSpan.FromHours(1));
                options.Subscriptions.Add(new MqttSubscription { Filter = $"{scene.Topic}/a" });
            });
            await using var receiver = await scene.ReceiveSharedAsync(transport, new CollectingTransport());
            proxy.ResetAll();
            await scene.PublishAsync(scene.Message("missed"));
            await others.WaitForMessagesAsync(1).WithinDeadline();
        }

        var arrived = await scene.ReceiveAsync($"{scene.Topic}/a", options => options.ClientId = clientId);
        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["end"], arrived.Texts);
    });

    // The others leave the time to the client.
    [Theory]
    [InlineData("mqtt")]
    [InlineData("mqtts")]
    [InlineData("ws")]
    [InlineData("wss")]
    public Task A_client_pings_as_often_as_its_broker_asks(string scheme) => RunAsync(ConformanceBrokers.Mosquitto, scheme, MqttVersion.V5, static async scene =>
    {
        var time = new ManualTimeProvider();
        var address = scene.Options().Server;
        await using var proxy = TcpProxy.Start(address.Host, address.Port);
        var options = scene.Options(options => (options.Server, options.KeepAlive) = (new UriBuilder(address) { Port = proxy.Port }.Uri, TimeSpan.FromHours(1)));
        options.Subscriptions.Add(new MqttSubscription { Filter = scene.Topic });
        await using var receiver = new MqttReceiver(options, MqttEnds.Node, new BatchReceiver(new CollectingTransport()), time);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        Assert.Null(receiver.Fault);

        // The next byte, which is the ping's first, ends the connection.
        proxy.CutAfter(0);
        time.Advance(TimeSpan.FromSeconds(ConformanceBrokers.ServerKeepAliveSeconds));

        await Until.TrueAsync(() => receiver.Fault is not null);
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task A_message_with_the_identifiers_of_its_subscriptions_arrives(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var clientId = Some.Name("session");
        await scene.LeaveSubscriptionAsync($"{clientId}-receiver", $"{scene.Topic}/a", identifier: 268_435_455);
        await scene.LeaveSubscriptionAsync($"{clientId}-receiver", $"{scene.Topic}/+", identifier: 1);

        var arrived = await scene.ReceiveAsync($"{scene.Topic}/b", options => options.ClientId = clientId);
        await scene.PublishAsync(scene.Message("text"));
        await scene.PublishAsync(scene.Message("end", "b"));

        // A broker may send it once, or once for each subscription (MQTT 5, section 3.3.4).
        await Until.TrueAsync(() => arrived.Texts.Contains("end"));
        Assert.Contains("text", arrived.Texts);
        Assert.DoesNotContain(arrived.Messages, static message => message.Header is { Properties.IsEmpty: false });
    });

    // The others send no client away.
    [Theory]
    [InlineData(ConformanceBrokers.MqttNet, "mqtt")]
    [InlineData(ConformanceBrokers.MqttNet, "mqtts")]
    public Task Who_is_sent_to_another_server_says_which(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var options = scene.Options(static options => (options.ClientId, options.FailFast) = (Some.Name(ConformanceBrokers.SentAway), true));
        options.Subscriptions.Add(new MqttSubscription { Filter = scene.Topic });
        await using var receiver = new MqttReceiver(options, MqttEnds.Node, new BatchReceiver(new CollectingTransport()));

        var failure = await Assert.ThrowsAsync<IOException>(() => receiver.StartAsync(CancellationToken.None).WithinDeadline());

        Assert.Contains(nameof(MqttReasonCode.UseAnotherServer), failure.Message, StringComparison.Ordinal);
        Assert.Contains(ConformanceBrokers.OtherServer, failure.Message, StringComparison.Ordinal);
    });

    [Theory]
    [MemberData(nameof(NewCases))]
    public Task A_publish_that_no_one_gets_says_so_or_nothing(string broker, string scheme) => RunAsync(broker, scheme, MqttVersion.V5, static async scene =>
    {
        var report = await scene.Sender().PublishManyAsync(new[] { scene.Message("no one") }).WithinDeadline();

        Assert.Contains(report[0].ReasonCode, new[] { MqttReasonCode.Success, MqttReasonCode.NoMatchingSubscribers });
    });
}
