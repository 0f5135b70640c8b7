namespace BatchKit.Mqtt.Packets;

/// <summary>SUBSCRIBE (MQTT 5, section 3.8).</summary>
internal static class SubscribePacket
{
    private const int Flags = 0b0010;

    /// <summary>Writes the packet into an array of exactly its size.</summary>
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

/// <summary>SUBACK (MQTT 5, section 3.9): a reason code for each subscription, in the order of the SUBSCRIBE.</summary>
internal sealed record SubackPacket(ushort PacketId, IReadOnlyList<MqttReasonCode> ReasonCodes, string? Reason)
{
    /// <exception cref="MqttProtocolException">The packet is malformed.</exception>
    public static SubackPacket Read(ReadOnlySpan<byte> body, MqttVersion version)
    {
        var reader = new PacketReader(body);
        var packetId = reader.ReadPacketId();
        var reason = version == MqttVersion.V5 ? ReasonProperty.Read(reader.ReadProperties(), PropertySets.Acknowledgement) : null;
        if (reader.Rest.IsEmpty)
            throw MqttProtocolException.Malformed("A SUBACK has no reason code.");
        var codes = new MqttReasonCode[reader.Rest.Length];
        for (var index = 0; index < codes.Length; index++)
            codes[index] = ReadCode(reader.ReadByte(), version);
        return new SubackPacket(packetId, codes, reason);
    }

    // 3.1.1 has only one failure code (section 3.9.3).
    private static MqttReasonCode ReadCode(byte value, MqttVersion version) =>
        version == MqttVersion.V5 || value <= (byte)MqttReasonCode.UnspecifiedError
            ? Packets.ReasonCodes.Read(value, MqttReasonCode.Success, MqttReasonCode.GrantedQoS1, MqttReasonCode.GrantedQoS2)
            : throw MqttProtocolException.Forbidden($"The return code 0x{value:X2} is not valid in a SUBACK.");
}
