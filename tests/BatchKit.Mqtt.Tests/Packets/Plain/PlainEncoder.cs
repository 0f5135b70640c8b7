namespace BatchKit.Mqtt.Tests.Packets.Plain;

/// <summary>Writes the packets that a broker sends, from the specification's text alone.</summary>
internal static class PlainEncoder
{
    public static byte[] Encode(PlainPacket packet, MqttVersion version)
    {
        var isFive = version == MqttVersion.V5;
        byte[] properties = isFive ? PlainProperties.Write(packet.Properties) : [];
        byte[] body = packet.Type switch
        {
            2 => [(byte)packet.Codes[0], ReturnCode(packet.Codes[1], isFive), .. properties],
            3 => [.. Text(packet.Topic), .. (packet.Flags & 6) == 0 ? [] : Number(packet.PacketId, 2), .. properties, .. packet.Payload],
            // What says nothing may be left out at the end.
            4 when !isFive || (packet.Properties.Count == 0 && packet.Codes[0] == 0) => Number(packet.PacketId, 2),
            4 when packet.Properties.Count == 0 => [.. Number(packet.PacketId, 2), (byte)packet.Codes[0]],
            4 => [.. Number(packet.PacketId, 2), (byte)packet.Codes[0], .. properties],
            9 => [.. Number(packet.PacketId, 2), .. properties, .. packet.Codes.Select(static code => (byte)code)],
            13 => [],
            14 when packet.Properties.Count == 0 => packet.Codes[0] == 0 ? [] : [(byte)packet.Codes[0]],
            14 => [(byte)packet.Codes[0], .. properties],
            _ => throw new ArgumentOutOfRangeException(nameof(packet)),
        };
        return Packet(packet.Type, packet.Flags, body);
    }

    public static byte[] Packet(int type, int flags, byte[] body) => [(byte)((type * 16) + flags), .. VariableBytes(body.Length), .. body];

    public static byte[] VariableBytes(int value) => value < 128 ? [(byte)value] : [(byte)((value % 128) + 128), .. VariableBytes(value / 128)];

    public static byte[] Number(long value, int width) => width == 0 ? [] : [.. Number(value / 256, width - 1), (byte)(value % 256)];

    public static byte[] Binary(byte[] value) => [.. Number(value.Length, 2), .. value];

    public static byte[] Text(string value) => Binary(System.Text.Encoding.UTF8.GetBytes(value));

    private static byte ReturnCode(int reasonCode, bool isFive) => isFive ? (byte)reasonCode : (byte)Array.IndexOf(PlainDecoder.ReturnCodes, reasonCode);
}
