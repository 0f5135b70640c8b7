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
