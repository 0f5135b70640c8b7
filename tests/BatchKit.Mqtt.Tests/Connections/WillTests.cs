using BatchKit.Mqtt.Tests.Packets.Plain;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>The will of a transport, as its CONNECT has it.</summary>
public sealed class WillTests : IDisposable
{
    private const int Retained = 0b001;
    private const int AtLeastOnce = 0b010;
    private const int Expiry = 2;

    private readonly FakeBroker _broker = new();

    public void Dispose() => _broker.Dispose();

    [Fact]
    public async Task It_has_the_rules_of_its_topic_as_far_as_its_message_leaves_them_open()
    {
        var ruled = await ConnectAsync(new MqttMessage("status/a", default));
        var own = await ConnectAsync(new MqttMessage("status/a", default) { QualityOfService = MqttQualityOfService.AtMostOnce, Retain = false, Expiry = TimeSpan.Zero });
        var free = await ConnectAsync(new MqttMessage("other", default));

        Assert.Equal((AtLeastOnce | Retained, "60"), Show(ruled));
        Assert.Equal((0, null), Show(own));
        Assert.Equal((AtLeastOnce, null), Show(free));
    }

    private static (int Flags, string? Expiry) Show(PlainPacket? will) => (will!.Flags, will.Properties.SingleOrDefault(static property => property.Id == Expiry)?.Value);

    private async Task<PlainPacket?> ConnectAsync(MqttMessage message)
    {
        var options = ConnectionSome.Options(_broker);
        options.Will = new MqttWill(message);
        options.TopicRules = [new MqttTopicRule { Filter = "status/#", Retain = true, Expiry = TimeSpan.FromMinutes(1) }];
        await using var transport = new MqttTransport(options);
        _ = transport.StartLinkAsync();
        using var client = await _broker.AcceptAsync();
        return PlainDecoder.Decode(await client.ReadAsync(), MqttVersion.V5, isFromBroker: false)?.Connect?.Will;
    }
}
