using BatchKit.Mqtt;
using BatchKit.Testing;
using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests.Mqtt.Conformance;

/// <summary>Sessions, wills, shared subscriptions, lost connections and restarts.</summary>
[Trait("Lane", "night: each scenario at four brokers, over each way to connect")]
[Collection(ConformanceLane.Collection)]
public sealed class SessionConformanceTests(ConformanceBrokers brokers) : ConformanceLane(brokers)
{
    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_will_is_published_when_the_connection_breaks(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();
        var address = scene.Options().Server;
        await using var proxy = TcpProxy.Start(address.Host, address.Port);
        var sender = scene.Sender(options =>
        {
            options.Server = new UriBuilder(address) { Port = proxy.Port }.Uri;
            options.Will = new MqttWill(scene.Message("the will"));
            options.MaxReconnectDelay = TimeSpan.FromMinutes(1);
            options.ReconnectDelay = TimeSpan.FromMinutes(1);
        });
        await ConformanceScene.PublishAsync(sender, scene.Message("alive"));

        proxy.ResetAll();

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["alive", "the will"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_will_is_not_published_after_an_orderly_end(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();
        await using (var sender = new MqttTransport(scene.Options(options => options.Will = new MqttWill(scene.Message("the will")))))
            await ConformanceScene.PublishAsync(sender, scene.Message("alive"));

        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["alive", "end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_session_keeps_what_came_while_its_client_was_away(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = new CollectingTransport();
        var clientId = Some.Name("session");
        var first = await scene.ReceiveAsync(arrived, configure: options => options.ClientId = clientId);
        await scene.PublishAsync(scene.Lines(10));
        await arrived.WaitForMessagesAsync(10).WithinDeadline();
        await first.DisposeAsync();
        await scene.PublishAsync(scene.Lines(100, start: 10));

        await scene.ReceiveAsync(arrived, configure: options => options.ClientId = clientId);

        await arrived.WaitForMessagesAsync(110).WithinDeadline();
        Assert.Equal(Some.Lines(110), arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_clean_start_ends_the_session_before(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var clientId = Some.Name("session");
        var first = await scene.ReceiveAsync(new CollectingTransport(), configure: options => options.ClientId = clientId);
        await first.DisposeAsync();
        await scene.PublishAsync(scene.Message("while it was away"));

        var arrived = await scene.ReceiveAsync(configure: options => (options.ClientId, options.CleanStart) = (clientId, true));
        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_second_client_with_the_same_id_takes_the_session_over(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var clientId = Some.Name("session");
        void Configure(MqttOptions options) => (options.ClientId, options.ReconnectDelay, options.MaxReconnectDelay) = (clientId, TimeSpan.FromMinutes(1), TimeSpan.FromMinutes(1));
        var first = await scene.ReceiveAsync(new CollectingTransport(), configure: Configure);

        var arrived = await scene.ReceiveAsync(configure: Configure);
        await Until.TrueAsync(() => first.Fault is not null);
        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_lost_connection_loses_nothing_and_keeps_the_order(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, async scene =>
    {
        var arrived = new CollectingTransport();
        var address = scene.Options().Server;
        await using var proxy = TcpProxy.Start(address.Host, address.Port);
        await scene.ReceiveAsync(arrived, configure: options => options.Server = new UriBuilder(address) { Port = proxy.Port }.Uri);
        for (var cut = 0; cut < 3; cut++)
        {
            await scene.PublishAsync(scene.Lines(50, start: 50 * cut));
            proxy.ResetAll();
        }

        // What was on its way comes again.
        await Until.TrueAsync(() => arrived.Texts.Distinct(StringComparer.Ordinal).Count() == 150);
        if (!Deviations.MayReorderAfterLoss(broker))
            Assert.Equal(Some.Lines(150), arrived.Texts.Distinct(StringComparer.Ordinal));
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_shared_subscription_gives_each_message_to_one_of_its_clients(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = new CollectingTransport();
        var filter = $"$share/{Some.Name("group")}/{scene.Topic}/#";
        for (var client = 0; client < 3; client++)
            await scene.ReceiveAsync(arrived, filter);

        await scene.PublishAsync(scene.Lines(300));
        await scene.PublishAsync(scene.Message("end"));

        await Until.TrueAsync(() => arrived.Texts.Contains("end") && arrived.MessageCount >= 301);
        Assert.Equal([.. Some.Lines(300).Append("end").Order(StringComparer.Ordinal)], arrived.Texts.Order(StringComparer.Ordinal));
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task Frames_of_a_scope_arrive_once_and_in_order(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = new CollectingTransport();
        var prefix = Some.Name("frames");
        await scene.ReceiveAsync(arrived, configure: options => options.EnvelopePrefix = prefix);
        await using var output = new OutputBuffer(scene.Sender(options => options.EnvelopePrefix = prefix));
        var handle = Some.Connection(MqttEnds.Node);

        await using (output.BeginBufferingScope(handle))
        {
            foreach (var line in Some.Lines(1000))
                output.Write(handle, line);
        }

        await arrived.WaitForMessagesAsync(1000).WithinDeadline();
        Assert.Equal(Some.Lines(1000), arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_broker_that_is_restarted_loses_nothing_that_it_has_acknowledged(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        Assert.SkipWhen(scene.Broker.RestartAsync is null, "This broker is started without a store.");
        var arrived = new CollectingTransport();
        await scene.ReceiveAsync(arrived);
        await scene.PublishAsync(scene.Lines(50));

        await scene.Broker.RestartAsync!();
        await scene.PublishAsync(scene.Lines(50, start: 50));

        await Until.TrueAsync(() => arrived.Texts.Distinct(StringComparer.Ordinal).Count() == 100);
        Assert.Equal(Some.Lines(100), arrived.Texts.Distinct(StringComparer.Ordinal));
    });
}
