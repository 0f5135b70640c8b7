using System.Buffers.Binary;
using System.Runtime.InteropServices;
using System.Text;

namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>A WebSocket client's side after the handshake, which holds the server to RFC 6455: whole, unmasked frames without reserved bits.</summary>
internal sealed class WebSocketDecoder : IClientDecoder
{
    private const int Text = 1;
    private const int Close = 8;
    private const int Ping = 9;
    private const int Pong = 10;

    private readonly List<byte> _pending = [];

    /// <summary>The close frame's code; null when none came.</summary>
    public int? CloseCode { get; private set; }

    public bool IsCut => _pending.Count > 0;

    public static byte[] Frame(int opcode, ReadOnlySpan<byte> payload)
    {
        byte[] mask = [1, 2, 3, 4];
        var frame = new List<byte> { (byte)(0x80 | opcode) };
        if (payload.Length < 126)
            frame.Add((byte)(0x80 | payload.Length));
        else
            frame.AddRange([0x80 | 126, (byte)(payload.Length >> 8), (byte)payload.Length]);
        frame.AddRange(mask);
        for (var index = 0; index < payload.Length; index++)
            frame.Add((byte)(payload[index] ^ mask[index % 4]));
        return [.. frame];
    }

    public void Decode(ReadOnlySpan<byte> bytes, List<byte> text, List<byte> answer)
    {
        _pending.AddRange(bytes);
        var consumed = 0;
        var pending = CollectionsMarshal.AsSpan(_pending);
        while (TryReadFrame(pending[consumed..], out var opcode, out var payload, out var length))
        {
            consumed += length;
            if (CloseCode is not null)
                throw new InvalidDataException("A frame came behind the close frame.");
            Take(opcode, payload, text, answer);
        }

        _pending.RemoveRange(0, consumed);
    }

    public byte[] Encode(string line) => Frame(Text, Encoding.UTF8.GetBytes(line));

    private void Take(int opcode, ReadOnlySpan<byte> payload, List<byte> text, List<byte> answer)
    {
        switch (opcode)
        {
            case Text or 2:
                text.AddRange(payload);
                break;
            case Ping:
                answer.AddRange(Frame(Pong, payload));
                break;
            case Close:
                CloseCode = payload.Length >= 2 ? BinaryPrimitives.ReadUInt16BigEndian(payload) : 1005;
                answer.AddRange(Frame(Close, payload));
                break;
            case Pong:
                break;
            default:
                throw new InvalidDataException($"A frame with opcode {opcode} came.");
        }
    }

    private static bool TryReadFrame(ReadOnlySpan<byte> bytes, out int opcode, out ReadOnlySpan<byte> payload, out int length)
    {
        (opcode, length) = (0, 0);
        payload = default;
        if (bytes.Length < 2)
            return false;
        if ((bytes[0] & 0xF0) != 0x80 || (bytes[1] & 0x80) != 0)
            throw new InvalidDataException($"A frame began with {bytes[0]:x2} {bytes[1]:x2}.");
        var header = bytes[1] switch { 126 => 4, 127 => 10, _ => 2 };
        if (bytes.Length < header)
            return false;
        var payloadBytes = bytes[1] switch
        {
            126 => BinaryPrimitives.ReadUInt16BigEndian(bytes[2..]),
            127 => (int)BinaryPrimitives.ReadUInt64BigEndian(bytes[2..]),
            var small => small,
        };
        length = header + payloadBytes;
        if (bytes.Length < length)
            return false;
        opcode = bytes[0] & 0x0F;
        payload = bytes[header..length];
        return true;
    }
}
