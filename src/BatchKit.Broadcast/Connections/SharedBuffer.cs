using System.Buffers;

namespace BatchKit.Broadcast.Connections;

/// <summary>Pooled bytes that many connections' queues share; the last to release them returns them.</summary>
internal sealed class SharedBuffer
{
    private byte[]? _array;
    private int _references = 1;

    private SharedBuffer(byte[] array) => _array = array;

    public Memory<byte> Memory => _array;

    public static SharedBuffer Rent(int bytes) => new(ArrayPool<byte>.Shared.Rent(bytes));

    public static SharedBuffer Copy(ReadOnlySpan<byte> bytes)
    {
        var copy = Rent(bytes.Length);
        bytes.CopyTo(copy._array);
        return copy;
    }

    public void AddReference() => Interlocked.Increment(ref _references);

    public void Release()
    {
        if (Interlocked.Decrement(ref _references) != 0)
            return;
        ArrayPool<byte>.Shared.Return(_array!);
        _array = null;
    }
}
