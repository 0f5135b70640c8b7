using System.Buffers.Binary;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Looks for a client's first pong in its bytes, frame by frame, whatever comes before it.</summary>
internal sealed class PongWatch
{
    private const int MaxHeaderBytes = 14;
    private const byte OpcodeBits = 0x0F;
    private const byte PongOpcode = 0xA;
    private const byte LengthBits = 0x7F;
    private const byte MaskBit = 0x80;

    private readonly byte[] _header = new byte[MaxHeaderBytes];
    private int _headerBytes;
    private long _payloadBytes;

    /// <returns>True when the bytes have a pong's header.</returns>
    public bool HasPong(ReadOnlySpan<byte> received)
    {
        while (!received.IsEmpty)
        {
            if (_payloadBytes > 0)
            {
                var skipped = (int)Math.Min(_payloadBytes, received.Length);
                _payloadBytes -= skipped;
                received = received[skipped..];
                continue;
            }

            _header[_headerBytes++] = received[0];
            received = received[1..];
            if (_headerBytes < 2 || _headerBytes < HeaderLength)
                continue;
            if ((_header[0] & OpcodeBits) == PongOpcode)
                return true;
            (_payloadBytes, _headerBytes) = (PayloadLength, 0);
        }

        return false;
    }

    private int ShortLength => _header[1] & LengthBits;

    private int HeaderLength => 2 + (ShortLength switch { 126 => 2, 127 => 8, _ => 0 }) + ((_header[1] & MaskBit) != 0 ? 4 : 0);

    private long PayloadLength => ShortLength switch
    {
        126 => BinaryPrimitives.ReadUInt16BigEndian(_header.AsSpan(2)),
        127 => BinaryPrimitives.ReadInt64BigEndian(_header.AsSpan(2)),
        var length => length,
    };
}
