using System.Buffers.Binary;

namespace BatchKit.Mqtt.Packets;

/// <summary>PUBACK, PUBREC and PUBCOMP (MQTT 5, sections 3.4, 3.5 and 3.7) with the code success, which are the same in both versions.</summary>
internal static class AcknowledgementPacket
{
    /// <summary>The size of the packet.</summary>
    public const int Bytes = 4;

    public static void Write(Span<byte> target, PacketType type, ushort packetId)
    {
        target[0] = (byte)((int)type << 4);
        target[1] = sizeof(ushort);
        BinaryPrimitives.WriteUInt16BigEndian(target[2..], packetId);
    }
}

/// <summary>PUBACK (MQTT 5, section 3.4).</summary>
internal static class PubackPacket
{
    /// <exception cref="MqttProtocolException">The packet is malformed.</exception>
    public static ushort Read(ReadOnlySpan<byte> body, MqttVersion version, out MqttReasonCode reasonCode, out string? reason)
    {
        var reader = new PacketReader(body);
        var packetId = reader.ReadPacketId();
        reasonCode = MqttReasonCode.Success;
        reason = null;
        if (version == MqttVersion.V5 && !reader.Rest.IsEmpty)
        {
            reasonCode = ReasonCodes.Read(reader.ReadByte(), MqttReasonCode.Success, MqttReasonCode.NoMatchingSubscribers);
            // A missing length of the properties means a length of 0 (section 3.4.2.2.1).
            if (!reader.Rest.IsEmpty)
                reason = ReasonProperty.Read(reader.ReadProperties(), PropertySets.Acknowledgement);
        }

        reader.RequireEnd();
        return packetId;
    }
}
