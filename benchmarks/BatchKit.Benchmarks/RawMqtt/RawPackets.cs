using System.Buffers.Binary;
using System.Text;

namespace BatchKit.Benchmarks.RawMqtt;

/// <summary>The few MQTT 5 packets that the floor and the subscriber send, each made once.</summary>
internal static class RawPackets
{
    public const byte Publish = 3;
    public const byte Puback = 4;

    public static byte[] Connect(string clientId, string? userName, string? password)
    {
        var flags = (byte)(0x02 | (userName is null ? 0 : 0x80) | (password is null ? 0 : 0x40));
        byte[] user = userName is null ? [] : Text(userName);
        byte[] secret = password is null ? [] : Text(password);
        return Packet(0x10, [.. Text("MQTT"), 5, flags, .. UInt16(0), 0, .. Text(clientId), .. user, .. secret]);
    }

    /// <summary>A SUBSCRIBE that asks for no retained messages (MQTT 5, section 3.8.3.1): they are no arrivals.</summary>
    public static byte[] Subscribe(string filter, int quality) => Packet(0x82, [.. UInt16(1), 0, .. Text(filter), (byte)(quality | 0x20)]);

    /// <summary>A PUBLISH with packet id 1 where it has one.</summary>
    public static byte[] PublishOf(PublishShape shape, string topic, ReadOnlySpan<byte> payload)
    {
        var properties = shape.PropertyPairs.SelectMany(pair => (byte[])[0x26, .. Text(pair.Key), .. Text(pair.Value)]).ToArray();
        byte[] id = shape.Quality == 0 ? [] : UInt16(1);
        return Packet((byte)(0x30 | (shape.Quality << 1)), [.. Text(topic), .. id, .. Number(properties.Length), .. properties, .. payload]);
    }

    /// <summary>Reads what a packet begins with.</summary>
    /// <returns>The bytes of the whole packet; zero when more must come first.</returns>
    public static int Measure(ReadOnlySpan<byte> input, out int bodyAt)
    {
        bodyAt = 0;
        if (input.Length < 2)
            return 0;
        bodyAt = 1;
        if (!TryReadNumber(input, ref bodyAt, out var bodyBytes))
            return 0;
        return bodyAt + bodyBytes <= input.Length ? bodyAt + bodyBytes : 0;
    }

    /// <summary>Reads a variable byte integer (MQTT 5, section 1.5.5).</summary>
    public static bool TryReadNumber(ReadOnlySpan<byte> input, ref int position, out int value)
    {
        value = 0;
        for (var shift = 0; shift < 28 && position < input.Length; shift += 7)
        {
            var next = input[position++];
            value |= (next & 0x7F) << shift;
            if (next < 0x80)
                return true;
        }

        return false;
    }

    private static byte[] Packet(byte first, byte[] body) => [first, .. Number(body.Length), .. body];

    private static byte[] Text(string text) => [.. UInt16(Encoding.UTF8.GetByteCount(text)), .. Encoding.UTF8.GetBytes(text)];

    private static byte[] UInt16(int value)
    {
        var bytes = new byte[2];
        BinaryPrimitives.WriteUInt16BigEndian(bytes, (ushort)value);
        return bytes;
    }

    private static byte[] Number(int value)
    {
        var bytes = new List<byte>();
        do
        {
            bytes.Add((byte)((value & 0x7F) | (value > 0x7F ? 0x80 : 0)));
            value >>= 7;
        }
        while (value > 0);
        return [.. bytes];
    }
}
