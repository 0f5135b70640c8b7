using System.Buffers;

namespace BatchKit.RabbitMQ;

/// <summary>A frame's bytes in a rented array, which disposing returns.</summary>
internal sealed class PooledFrame(int capacity) : IBufferWriter<byte>, IDisposable
{
    private byte[] _array = ArrayPool<byte>.Shared.Rent(capacity);
    private int _length;

    public ReadOnlyMemory<byte> Bytes => _array.AsMemory(0, _length);

    public void Advance(int count) => _length += count;

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        Reserve(sizeHint);
        return _array.AsMemory(_length);
    }

    public Span<byte> GetSpan(int sizeHint = 0)
    {
        Reserve(sizeHint);
        return _array.AsSpan(_length);
    }

    public void Dispose()
    {
        if (_array.Length > 0)
            ArrayPool<byte>.Shared.Return(_array);
        _array = [];
        _length = 0;
    }

    private void Reserve(int sizeHint)
    {
        var needed = Math.Max(1, sizeHint);
        if (_array.Length - _length >= needed)
            return;
        var larger = ArrayPool<byte>.Shared.Rent(Math.Max(checked(_length + needed), _array.Length * 2));
        _array.AsSpan(0, _length).CopyTo(larger);
        ArrayPool<byte>.Shared.Return(_array);
        _array = larger;
    }
}
