using System.Buffers.Binary;

namespace BatchKit.Mqtt.Packets;

/// <summary>PUBACK (MQTT 5, section 3.4).</summary>
internal static class PubackPacket
{
    /// <summary>What an acknowledgement without a reason code takes.</summary>
    public const int Bytes = 4;

    /// <summary>Writes one that says success, which is the same in both versions.</summary>
    public static void Write(Span<byte> target, ushort packetId)
    {
        target[0] = (byte)((int)PacketType.Puback << 4);
        target[1] = sizeof(ushort);
        BinaryPrimitives.WriteUInt16BigEndian(target[2..], packetId);
    }

    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static ushort Read(ReadOnlySpan<byte> body, MqttVersion version, out MqttReasonCode reasonCode, out string? reason)
    {
        var reader = new PacketReader(body);
        var packetId = reader.ReadPacketId();
        reasonCode = MqttReasonCode.Success;
        reason = null;
        if (version == MqttVersion.V5 && !reader.Rest.IsEmpty)
        {
            reasonCode = ReasonCodes.Read(reader.ReadByte(), MqttReasonCode.Success, MqttReasonCode.NoMatchingSubscribers);
            // No properties' length is a length of 0 (section 3.4.2.2.1).
            if (!reader.Rest.IsEmpty)
                reason = ReasonProperty.Read(reader.ReadProperties(), PropertySets.Acknowledgement);
        }

        reader.RequireEnd();
        return packetId;
    }
}
