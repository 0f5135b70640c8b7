using System.Buffers.Binary;
using System.Text;
using System.Text.Unicode;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Writes a server's unmasked WebSocket frames (RFC 6455, section 5.2), each a whole message.</summary>
internal static class WebSocketEncoder
{
    public const byte TextOpcode = 0x1;
    public const byte BinaryOpcode = 0x2;
    public const byte CloseOpcode = 0x8;

    private const int MaxHeaderBytes = 10;
    private const byte FinalBit = 0x80;
    private const byte OpcodeBits = 0x0F;
    private const byte InvalidMark = (byte)'?';

    /// <summary>An empty ping (RFC 6455, section 5.5.2).</summary>
    public static ReadOnlySpan<byte> Ping => [0x89, 0];

    /// <summary>The same, to be kept.</summary>
    public static ReadOnlyMemory<byte> PingFrame { get; } = Ping.ToArray();

    public static int GetMaxBytes(int payloadBytes) => payloadBytes + MaxHeaderBytes;

    /// <summary>Writes one frame. In a text, each byte that is no part of valid UTF-8 becomes a question mark: it would end the connection (RFC 6455, section 8.1).</summary>
    /// <returns>Its bytes.</returns>
    public static int Encode(ReadOnlySpan<byte> payload, bool isText, Span<byte> destination)
    {
        var length = EncodeFrame((byte)(FinalBit | (isText ? TextOpcode : BinaryOpcode)), payload, destination);
        if (isText && !Utf8.IsValid(payload))
            Repair(destination[(length - payload.Length)..length]);
        return length;
    }

    /// <summary>Reads the first of the frames that this writes.</summary>
    /// <returns>Its bytes.</returns>
    public static int ReadFrame(ReadOnlyMemory<byte> frames, out byte opcode, out ReadOnlyMemory<byte> payload)
    {
        var bytes = frames.Span;
        opcode = (byte)(bytes[0] & OpcodeBits);
        var (header, length) = bytes[1] switch
        {
            126 => (4, BinaryPrimitives.ReadUInt16BigEndian(bytes[2..])),
            127 => (MaxHeaderBytes, (int)BinaryPrimitives.ReadUInt64BigEndian(bytes[2..])),
            var small => (2, small),
        };
        payload = frames.Slice(header, length);
        return header + length;
    }

    private static int EncodeFrame(byte firstByte, ReadOnlySpan<byte> payload, Span<byte> destination)
    {
        destination[0] = firstByte;
        int header;
        switch (payload.Length)
        {
            case < 126:
                destination[1] = (byte)payload.Length;
                header = 2;
                break;
            case <= ushort.MaxValue:
                destination[1] = 126;
                BinaryPrimitives.WriteUInt16BigEndian(destination[2..], (ushort)payload.Length);
                header = 4;
                break;
            default:
                destination[1] = 127;
                BinaryPrimitives.WriteUInt64BigEndian(destination[2..], (ulong)payload.Length);
                header = MaxHeaderBytes;
                break;
        }

        payload.CopyTo(destination[header..]);
        return header + payload.Length;
    }

    private static void Repair(Span<byte> text)
    {
        while (!text.IsEmpty)
        {
            if (Rune.DecodeFromUtf8(text, out _, out var consumed) != System.Buffers.OperationStatus.Done)
                text[..consumed].Fill(InvalidMark);
            text = text[consumed..];
        }
    }
}
