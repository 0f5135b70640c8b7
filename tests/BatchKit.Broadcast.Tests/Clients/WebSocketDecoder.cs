using System.Buffers.Binary;
using System.Text;
using BatchKit.Broadcast.Tests.WebSockets;

namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>A WebSocket client's side after the handshake, which holds the server to RFC 6455: whole, unmasked frames without reserved bits.</summary>
internal sealed class WebSocketDecoder : IClientDecoder
{
    private readonly List<byte> _pending = [];

    /// <summary>The close frame's code; null when none came.</summary>
    public int? CloseCode { get; private set; }

    public bool IsCut => _pending.Count > 0;

    public void Decode(ReadOnlySpan<byte> bytes, List<byte> text, List<byte> answer)
    {
        _pending.AddRange(bytes);
        while (RawFrame.TryTake(_pending, out var frame))
        {
            if (CloseCode is not null)
                throw new InvalidDataException("A frame came behind the close frame.");
            if ((frame.FirstByte & 0xF0) != RawFrame.Final)
                throw new InvalidDataException($"A frame began with {frame.FirstByte:x2}.");
            Take(frame, text, answer);
        }
    }

    public byte[] Encode(string line) => RawFrame.Masked(RawFrame.Final | RawFrame.Text, Encoding.UTF8.GetBytes(line));

    private void Take(RawFrame frame, List<byte> text, List<byte> answer)
    {
        switch (frame.Opcode)
        {
            case RawFrame.Text or RawFrame.Binary:
                text.AddRange(frame.Payload);
                break;
            case RawFrame.Ping:
                answer.AddRange(RawFrame.Masked(RawFrame.Final | RawFrame.Pong, frame.Payload));
                break;
            case RawFrame.Close:
                CloseCode = frame.Payload.Length >= 2 ? BinaryPrimitives.ReadUInt16BigEndian(frame.Payload) : 1005;
                answer.AddRange(RawFrame.Masked(RawFrame.Final | RawFrame.Close, frame.Payload));
                break;
            case RawFrame.Pong:
                break;
            default:
                throw new InvalidDataException($"A frame with opcode {frame.Opcode} came.");
        }
    }
}
