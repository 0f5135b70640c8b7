namespace BatchKit.Mqtt.Packets;

/// <summary>SUBSCRIBE (MQTT 5, section 3.8).</summary>
internal static class SubscribePacket
{
    private const int Flags = 0b0010;

    /// <summary>Writes the packet, in an array of its exact size.</summary>
    /// <exception cref="ArgumentException">A filter holds half a surrogate pair.</exception>
    /// <exception cref="MqttProtocolException">A filter is longer than 65,535 bytes.</exception>
    public static byte[] Write(ushort packetId, IReadOnlyList<MqttSubscription> subscriptions, MqttVersion version)
    {
        var bodyBytes = sizeof(ushort) + (version == MqttVersion.V5 ? 1 : 0);
        foreach (var subscription in subscriptions)
            bodyBytes += sizeof(ushort) + PacketText.Strict.GetByteCount(subscription.Filter) + 1;
        var packet = new byte[1 + VariableByteInteger.Measure(bodyBytes) + bodyBytes];
        var writer = new PacketWriter(packet);
        writer.WriteHeader(PacketType.Subscribe, Flags, bodyBytes);
        writer.WriteTwoBytes(packetId);
        if (version == MqttVersion.V5)
            writer.WriteLength(0);
        foreach (var subscription in subscriptions)
        {
            writer.WriteText(subscription.Filter);
            writer.WriteByte((byte)subscription.QualityOfService);
        }

        return packet;
    }
}
