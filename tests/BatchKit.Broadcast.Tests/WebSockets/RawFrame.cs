using System.Buffers.Binary;
using System.Diagnostics.CodeAnalysis;
using System.Runtime.InteropServices;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>A frame as it is on the wire (RFC 6455, section 5.2).</summary>
internal sealed record RawFrame(byte FirstByte, byte[] Payload)
{
    public const byte Final = 0x80;
    public const byte Continuation = 0x0;
    public const byte Text = 0x1;
    public const byte Binary = 0x2;
    public const byte Close = 0x8;
    public const byte Ping = 0x9;
    public const byte Pong = 0xA;

    private const byte MaskBit = 0x80;
    private static readonly byte[] Mask = [0x12, 0x34, 0x56, 0x78];

    public byte Opcode => (byte)(FirstByte & 0xF);

    /// <summary>A client's frame.</summary>
    public static byte[] Masked(int firstByte, ReadOnlySpan<byte> payload)
    {
        var header = Header(firstByte, MaskBit, payload.Length);
        byte[] frame = [.. header, .. Mask, .. payload];
        for (var index = 0; index < payload.Length; index++)
            frame[header.Length + Mask.Length + index] ^= Mask[index % Mask.Length];
        return frame;
    }

    /// <summary>A frame that only a server may send.</summary>
    public static byte[] Unmasked(int firstByte, ReadOnlySpan<byte> payload) => [.. Header(firstByte, 0, payload.Length), .. payload];

    /// <summary>A client's close frame.</summary>
    public static byte[] MaskedClose(int code) => Masked(Final | Close, [(byte)(code >> 8), (byte)code]);

    /// <summary>Takes a server's frame from the start of the bytes, when it is whole.</summary>
    public static bool TryTake(List<byte> received, [NotNullWhen(true)] out RawFrame? frame)
    {
        frame = null;
        var bytes = CollectionsMarshal.AsSpan(received);
        if (bytes.Length < 2)
            return false;
        var header = bytes[1] switch { 126 => 4, 127 => 10, _ => 2 };
        if (bytes.Length < header)
            return false;
        var length = bytes[1] switch
        {
            126 => BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]),
            127 => (int)BinaryPrimitives.ReadUInt64BigEndian(bytes[2..]),
            _ => bytes[1] & 0x7F,
        };
        Assert.True((bytes[1] & MaskBit) == 0, "A server's frames are not masked (RFC 6455, section 5.1).");
        if (bytes.Length < header + length)
            return false;
        frame = new RawFrame(bytes[0], bytes.Slice(header, length).ToArray());
        received.RemoveRange(0, header + length);
        return true;
    }

    private static byte[] Header(int firstByte, int maskBit, int length)
    {
        if (length < 126)
            return [(byte)firstByte, (byte)(maskBit | length)];
        if (length <= ushort.MaxValue)
            return [(byte)firstByte, (byte)(maskBit | 126), (byte)(length >> 8), (byte)length];
        var header = new byte[10];
        (header[0], header[1]) = ((byte)firstByte, (byte)(maskBit | 127));
        BinaryPrimitives.WriteInt64BigEndian(header.AsSpan(2), length);
        return header;
    }
}
