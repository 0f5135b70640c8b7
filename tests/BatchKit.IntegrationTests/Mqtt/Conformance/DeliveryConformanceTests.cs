using BatchKit.Mqtt;
using BatchKit.Testing;

namespace BatchKit.IntegrationTests.Mqtt.Conformance;

/// <summary>Payloads, topics, filters, retained messages and windows.</summary>
[Trait("Lane", "night: each scenario at four brokers, over each way to connect")]
[Collection(ConformanceLane.Collection)]
public sealed class DeliveryConformanceTests(ConformanceBrokers brokers) : ConformanceLane(brokers)
{
    [Theory]
    [MemberData(nameof(Cases))]
    public Task Messages_of_quality_0_arrive_in_order(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();

        await scene.PublishAsync([.. scene.Lines(100).Select(static line => line with { QualityOfService = MqttQualityOfService.AtMostOnce })]);

        await arrived.WaitForMessagesAsync(100).WithinDeadline();
        Assert.Equal(Some.Lines(100), arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task Messages_of_quality_1_arrive_in_order(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();

        await scene.PublishAsync(scene.Lines(2000));

        await arrived.WaitForMessagesAsync(2000).WithinDeadline();
        Assert.Equal(Some.Lines(2000), arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task Messages_that_others_publish_with_quality_2_arrive_once_and_in_order(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();

        await scene.PublishExactlyOnceAsync(scene.Lines(100));
        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(101).WithinDeadline();
        Assert.Equal([.. Some.Lines(100), "end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_subscription_of_quality_0_gets_messages_of_quality_1(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync(subscribe: static subscription => subscription.QualityOfService = MqttQualityOfService.AtMostOnce);

        await scene.PublishAsync(scene.Lines(100));

        await arrived.WaitForMessagesAsync(100).WithinDeadline();
        Assert.Equal(Some.Lines(100), arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task An_empty_message_arrives(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();

        await scene.PublishAsync(scene.Message(""), scene.Message("end"));

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["", "end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_large_message_arrives_unchanged(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();
        var payload = Some.RandomBytes(1 << 20);

        await scene.PublishAsync(new MqttMessage($"{scene.Topic}/a", payload));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.True(payload.AsSpan().SequenceEqual(arrived.Messages[0].Payload));
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task Every_byte_is_a_byte_of_a_payload(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();
        byte[] payload = [.. Enumerable.Range(0, 256).Select(static value => (byte)value)];

        await scene.PublishAsync(new MqttMessage($"{scene.Topic}/a", payload));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(payload, arrived.Messages[0].Payload);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_topic_may_have_any_character_and_empty_levels(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();
        string[] levels = ["ä/é", "中文", "😀", " a b ", "$a", "a//b", "x.y*z"];

        await scene.PublishAsync([.. levels.Select(level => scene.Message(level, level))]);

        await arrived.WaitForMessagesAsync(levels.Length).WithinDeadline();
        Assert.Equal(levels.Select(level => $"{scene.Topic}/{level}"), arrived.Messages.Select(static message => message.Handle.Name));
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_plus_stands_for_one_level(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync($"{scene.Topic}/+/end");

        await scene.PublishAsync(scene.Message("none", "end"), scene.Message("two", "a/b/end"), scene.Message("other", "a/other"), scene.Message("one", "a/end"));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["one"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_number_sign_stands_for_the_topic_itself_and_all_below_it(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();

        await scene.PublishAsync(new MqttMessage(scene.Topic, Some.Bytes("itself")), scene.Message("below", "a/b/c"));

        await arrived.WaitForMessagesAsync(2).WithinDeadline();
        Assert.Equal(["itself", "below"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_retained_message_comes_to_who_subscribes_later_and_says_so(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        await scene.PublishAsync(scene.Message("older") with { Retain = true }, scene.Message("newest") with { Retain = true });

        var arrived = await scene.ReceiveAsync();

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(("newest", true), (arrived.Messages[0].Text, arrived.Messages[0].Header?.IsRetained));
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task An_empty_retained_message_ends_the_one_before(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        await scene.PublishAsync(scene.Message("older") with { Retain = true }, scene.Message("") with { Retain = true });

        var arrived = await scene.ReceiveAsync();
        await scene.PublishAsync(scene.Message("end"));

        await arrived.WaitForMessagesAsync(1).WithinDeadline();
        Assert.Equal(["end"], arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_receive_maximum_of_one_message_keeps_the_order(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync(configure: static options => options.ReceiveMaximum = 1);

        await scene.PublishAsync(scene.Lines(200));

        await arrived.WaitForMessagesAsync(200).WithinDeadline();
        Assert.Equal(Some.Lines(200), arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task A_window_of_one_message_publishes_all(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();

        await ConformanceScene.PublishAsync(scene.Sender(static options => options.PublishWindow = 1), scene.Lines(200));

        await arrived.WaitForMessagesAsync(200).WithinDeadline();
        Assert.Equal(Some.Lines(200), arrived.Texts);
    });

    [Theory]
    [MemberData(nameof(Cases))]
    public Task Topic_aliases_change_nothing_of_what_arrives(string broker, string scheme, MqttVersion version) => RunAsync(broker, scheme, version, static async scene =>
    {
        var arrived = await scene.ReceiveAsync();
        MqttMessage[] messages = [.. Enumerable.Range(0, 300).Select(number => scene.Message($"line {number}", $"level {number % 7}"))];

        await ConformanceScene.PublishAsync(scene.Sender(options => options.MaxTopicAliases = scene.Version == MqttVersion.V5 ? 3 : 0), messages);

        await arrived.WaitForMessagesAsync(300).WithinDeadline();
        Assert.Equal(messages.Select(static message => message.Topic), arrived.Messages.Select(static message => message.Handle.Name));
        Assert.Equal(Some.Lines(300), arrived.Texts);
    });
}
