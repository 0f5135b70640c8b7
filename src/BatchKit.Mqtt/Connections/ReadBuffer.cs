using System.Buffers;

namespace BatchKit.Mqtt.Connections;

/// <summary>Holds what a connection has read and not yet handed on. Grows for a large packet, and gives the memory back after it.</summary>
internal sealed class ReadBuffer : IDisposable
{
    private const int KeptBytes = 16 * 1024;

    private byte[] _array = ArrayPool<byte>.Shared.Rent(KeptBytes);
    private int _start;
    private int _end;

    public ReadOnlySpan<byte> Unread => _array.AsSpan(_start, _end - _start);

    /// <summary>Where the next read goes; never empty. What is unread may move.</summary>
    public Memory<byte> MakeRoom()
    {
        if (_start == _end)
        {
            (_start, _end) = (0, 0);
            if (_array.Length > 2 * KeptBytes)
                MoveTo(KeptBytes);
        }
        else if (_end == _array.Length && _start > 0)
        {
            Unread.CopyTo(_array);
            (_start, _end) = (0, _end - _start);
        }
        else if (_end == _array.Length)
        {
            // Who reads the headers refuses a packet past the limit, so doubling ends there.
            MoveTo(2 * _array.Length);
        }

        return _array.AsMemory(_end);
    }

    public void Advance(int bytes) => _end += bytes;

    public void Consume(int bytes) => _start += bytes;

    public void Dispose()
    {
        ArrayPool<byte>.Shared.Return(_array);
        (_array, _start, _end) = ([], 0, 0);
    }

    private void MoveTo(int bytes)
    {
        var array = ArrayPool<byte>.Shared.Rent(bytes);
        Unread.CopyTo(array);
        ArrayPool<byte>.Shared.Return(_array);
        (_array, _start, _end) = (array, 0, _end - _start);
    }
}
