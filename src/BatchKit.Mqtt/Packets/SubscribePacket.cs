namespace BatchKit.Mqtt.Packets;

/// <summary>SUBSCRIBE (MQTT 5, section 3.8).</summary>
internal static class SubscribePacket
{
    public static byte[] Write(ushort packetId, IReadOnlyList<MqttSubscription> subscriptions, MqttVersion version) => throw new NotSupportedException();
}
