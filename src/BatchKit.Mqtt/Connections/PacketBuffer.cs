using System.Buffers;

namespace BatchKit.Mqtt.Connections;

/// <summary>Collects packets for one write. Owned by a connection's output; one thread at a time.</summary>
internal sealed class PacketBuffer : IDisposable
{
    // Larger gains nothing on loopback (a write of 64 KiB is one system call either way), and a large packet's memory is not kept.
    private const int KeptBytes = 64 * 1024;

    private byte[] _array = ArrayPool<byte>.Shared.Rent(KeptBytes);
    private int _length;

    public bool IsEmpty => _length == 0;

    public ReadOnlyMemory<byte> Bytes => _array.AsMemory(0, _length);

    /// <summary>Room for a packet of so many bytes; an empty buffer grows for a large one.</summary>
    /// <returns>False when what is in it must be written first.</returns>
    public bool TryReserve(int bytes, out Span<byte> room)
    {
        if (_array.Length - _length < bytes)
        {
            if (_length > 0)
            {
                room = default;
                return false;
            }

            ArrayPool<byte>.Shared.Return(_array);
            _array = ArrayPool<byte>.Shared.Rent(bytes);
        }

        room = _array.AsSpan(_length, bytes);
        return true;
    }

    public void Advance(int bytes) => _length += bytes;

    public void Clear()
    {
        _length = 0;
        if (_array.Length <= 2 * KeptBytes)
            return;
        ArrayPool<byte>.Shared.Return(_array);
        _array = ArrayPool<byte>.Shared.Rent(KeptBytes);
    }

    public void Dispose()
    {
        ArrayPool<byte>.Shared.Return(_array);
        _array = [];
        _length = 0;
    }
}
