namespace BatchKit.Mqtt.Packets;

/// <summary>PUBLISH (MQTT 5, section 3.3; 3.1.1, section 3.3).</summary>
internal static class PublishPacket
{
    /// <summary>The bytes that the packet takes, header included; a long, because fields may add up to more than any packet has.</summary>
    /// <param name="fields">What it says.</param>
    /// <param name="version">The connection's version; 3.1.1 leaves the properties out.</param>
    /// <param name="topicAlias">The topic's number on this connection, or zero for none.</param>
    /// <param name="isTopicKnown">True leaves the topic out, because the alias was given it before on this connection.</param>
    public static long Measure(in PublishFields fields, MqttVersion version, ushort topicAlias = 0, bool isTopicKnown = false) =>
        throw new NotSupportedException();

    /// <summary>Writes the packet into memory that is large enough, as <see cref="Measure"/> says.</summary>
    /// <returns>How many bytes it took.</returns>
    public static int Write(
        Span<byte> target, in PublishFields fields, MqttVersion version, ushort packetId, bool isDuplicate, ushort topicAlias = 0, bool isTopicKnown = false) =>
        throw new NotSupportedException();

    /// <summary>Reads a packet that was received. Strict: what the protocol forbids is refused (section 4.13).</summary>
    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static ReceivedPublish Read(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version) => throw new NotSupportedException();
}
