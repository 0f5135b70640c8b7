using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>A group whose messages are their own numbers.</summary>
internal sealed class TestGroup : PublishGroup
{
    public TestGroup(int count) => Begin(new TestSend(), count);

    public override MqttPublishResult Read(int index, ref PublishFields fields) => default;

    protected override void Record(int index, MqttPublishResult result)
    {
    }
}
