using System.Buffers.Binary;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Writes a server's unmasked WebSocket frames (RFC 6455, section 5.2), each a whole message.</summary>
internal static class WebSocketEncoder
{
    private const int MaxHeaderBytes = 10;
    private const byte FinalText = 0x81;
    private const byte FinalBinary = 0x82;

    /// <summary>An empty ping (RFC 6455, section 5.5.2).</summary>
    public static ReadOnlySpan<byte> Ping => [0x89, 0];

    public static int GetMaxBytes(int payloadBytes) => payloadBytes + MaxHeaderBytes;

    /// <summary>Writes one frame.</summary>
    /// <returns>Its bytes.</returns>
    public static int Encode(ReadOnlySpan<byte> payload, bool isText, Span<byte> destination) =>
        EncodeFrame(isText ? FinalText : FinalBinary, payload, destination);

    public static int EncodeFrame(byte firstByte, ReadOnlySpan<byte> payload, Span<byte> destination)
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
}
