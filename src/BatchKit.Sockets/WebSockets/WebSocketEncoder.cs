using System.Buffers.Binary;
using System.Net.WebSockets;
using System.Text;
using System.Text.Unicode;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Writes a server's unmasked WebSocket frames (RFC 6455, section 5.2), each a whole message.</summary>
internal static class WebSocketEncoder
{
    public const byte TextOpcode = 0x1;
    public const byte BinaryOpcode = 0x2;
    public const byte CloseOpcode = 0x8;
    public const byte PongOpcode = 0xA;

    private const int MaxSmallPayloadBytes = 125;
    private const int MaxHeaderBytes = 10;
    private const byte FinalBit = 0x80;
    private const byte OpcodeBits = 0x0F;
    private const byte InvalidMark = (byte)'?';

    /// <summary>An empty ping (RFC 6455, section 5.5.2).</summary>
    public static ReadOnlySpan<byte> Ping => [0x89, 0];

    /// <summary>The same as memory.</summary>
    public static ReadOnlyMemory<byte> PingFrame { get; } = Ping.ToArray();

    /// <summary>The length of a frame.</summary>
    public static int GetBytes(int payloadBytes) => payloadBytes + payloadBytes switch
    {
        <= MaxSmallPayloadBytes => 2,
        <= ushort.MaxValue => 4,
        _ => MaxHeaderBytes,
    };

    /// <summary>Writes one frame. In a text, each byte that is not part of valid UTF-8 becomes a question mark, because it would end the connection (RFC 6455, section 8.1).</summary>
    /// <returns>The frame's length in bytes.</returns>
    public static int Encode(ReadOnlySpan<byte> payload, bool isText, Span<byte> destination)
    {
        var length = EncodeFrame((byte)(FinalBit | (isText ? TextOpcode : BinaryOpcode)), payload, destination);
        if (isText && !Utf8.IsValid(payload))
            Repair(destination[(length - payload.Length)..length]);
        return length;
    }

    /// <summary>Reads the header of a frame that this encoder wrote.</summary>
    /// <returns>The header's length in bytes; the payload follows.</returns>
    public static int ReadHeader(ReadOnlySpan<byte> frame, out byte opcode, out int payloadBytes)
    {
        opcode = (byte)(frame[0] & OpcodeBits);
        (var header, payloadBytes) = frame[1] switch
        {
            126 => (4, BinaryPrimitives.ReadUInt16BigEndian(frame[2..])),
            127 => (MaxHeaderBytes, (int)BinaryPrimitives.ReadUInt64BigEndian(frame[2..])),
            var small => (2, small),
        };
        return header;
    }

    private static int EncodeFrame(byte firstByte, ReadOnlySpan<byte> payload, Span<byte> destination)
    {
        destination[0] = firstByte;
        int header;
        switch (payload.Length)
        {
            case <= MaxSmallPayloadBytes:
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

/// <summary>The close frames that a server sends (RFC 6455, sections 5.5.1 and 7.4.1).</summary>
internal static class WebSocketClosings
{
    /// <summary>The longest of these frames: a header and a code.</summary>
    public const int MaxFrameBytes = 4;

    /// <summary>1000: normal closure.</summary>
    private static ReadOnlySpan<byte> Normal => [0x88, 2, 0x03, 0xE8];

    /// <summary>1001: going away.</summary>
    private static ReadOnlySpan<byte> GoingAway => [0x88, 2, 0x03, 0xE9];

    /// <summary>1008: policy violation.</summary>
    private static ReadOnlySpan<byte> PolicyViolation => [0x88, 2, 0x03, 0xF0];

    /// <summary>1011: internal error.</summary>
    private static ReadOnlySpan<byte> InternalError => [0x88, 2, 0x03, 0xF3];

    /// <summary>1003: a kind of message that the endpoint does not accept.</summary>
    public static ReadOnlySpan<byte> UnacceptedKind => [0x88, 2, 0x03, 0xEB];

    /// <summary>1007: a text that is not UTF-8.</summary>
    public static ReadOnlySpan<byte> InvalidText => [0x88, 2, 0x03, 0xEF];

    /// <summary>1009: a message too big to process.</summary>
    public static ReadOnlySpan<byte> TooBig => [0x88, 2, 0x03, 0xF1];

    /// <summary>Answers a client's close frame with its own code (RFC 6455, section 5.5.1).</summary>
    public static byte[] Answer(WebSocketCloseStatus? status) =>
        status is null or WebSocketCloseStatus.Empty ? [0x88, 0] : [0x88, 2, (byte)((int)status >> 8), (byte)status];

    public static WebSocketCloseStatus StatusOf(ReadOnlySpan<byte> payload) =>
        payload.Length < sizeof(ushort) ? WebSocketCloseStatus.NormalClosure : (WebSocketCloseStatus)BinaryPrimitives.ReadUInt16BigEndian(payload);

    public static ReadOnlySpan<byte> FrameFor(DisconnectReason reason) => reason switch
    {
        DisconnectReason.Stopped => GoingAway,
        DisconnectReason.Idle or DisconnectReason.NotAuthenticated or DisconnectReason.SlowConsumer => PolicyViolation,
        DisconnectReason.HandlerFailed => InternalError,
        _ => Normal,
    };
}
