using System.Buffers;

namespace BatchKit.Broadcast.Receiving;

/// <summary>What one client sent and nobody consumed yet. Holds no memory while that is nothing and the client is silent.</summary>
internal sealed class ReceiveBuffer(int maxRecordBytes)
{
    // Smaller ones make a busy client cost more system calls.
    private const int BusyBytes = 64 * 1024;

    // What cuts a record, such as a length before it or a line's end.
    private const int MaxFramingBytes = 256;

    private byte[]? _array;
    private int _start;
    private int _end;

    public Memory<byte> Unread => _array.AsMemory(_start, Length);

    public int Length => _end - _start;

    /// <summary>The bytes that it holds.</summary>
    public int HeldBytes => _array?.Length ?? 0;

    /// <summary>True when what waits to become a record is longer than any may be.</summary>
    public bool IsTooLong => Length > (long)maxRecordBytes + MaxFramingBytes;

    /// <summary>Gives room to receive more; never empty unless <see cref="IsTooLong"/>.</summary>
    public Memory<byte> GetFree()
    {
        var wanted = Math.Max(BusyBytes, Length * 2L);
        var size = (int)Math.Min(wanted, Math.Max(BusyBytes, (long)maxRecordBytes + MaxFramingBytes + 1));
        if (_array is null || (_array.Length < size && (_array.Length < BusyBytes || Length == _array.Length)))
            MoveTo(size);
        else if (_start > 0)
            MoveToStart();
        return _array.AsMemory(_end);
    }

    public void Advance(int bytes) => _end += bytes;

    public void Consume(int bytes)
    {
        _start += bytes;
        if (_start == _end)
            _start = _end = 0;
    }

    /// <summary>Makes itself as small as what it holds, before its client is waited for.</summary>
    public void Rest()
    {
        if (Length == 0)
            Release();
        else if (_array!.Length >= BusyBytes && Length < BusyBytes / 2)
            MoveTo(Length);
    }

    /// <summary>Forgets everything.</summary>
    public void Release()
    {
        (_start, _end) = (0, 0);
        if (_array is null)
            return;
        ArrayPool<byte>.Shared.Return(_array);
        _array = null;
    }

    private void MoveTo(int size)
    {
        var array = ArrayPool<byte>.Shared.Rent(size);
        var length = Length;
        Unread.CopyTo(array);
        Release();
        (_array, _end) = (array, length);
    }

    private void MoveToStart()
    {
        Unread.CopyTo(_array);
        (_start, _end) = (0, Length);
    }
}
