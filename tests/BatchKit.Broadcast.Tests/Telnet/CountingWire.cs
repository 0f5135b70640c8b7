using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Telnet;

/// <summary>A wire that takes everything, keeps nothing and allocates nothing: it counts the bytes, and the writes that did not wait.</summary>
internal sealed class CountingWire : IWire
{
    private long _bytes;
    private long _writes;

    public long Bytes => Volatile.Read(ref _bytes);

    public long Writes => Volatile.Read(ref _writes);

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        Interlocked.Increment(ref _writes);
        Interlocked.Add(ref _bytes, bytes.Length);
        return bytes.Length;
    }

    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        Interlocked.Add(ref _bytes, bytes.Length);
        return default;
    }

    public ValueTask FinishAsync() => default;

    public void Abort()
    {
    }
}
