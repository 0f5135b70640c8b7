using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Support;

/// <summary>A wire that takes everything, keeps nothing and allocates nothing.</summary>
internal sealed class CountingWire : IWire
{
    private long _writes;

    public long Writes => Volatile.Read(ref _writes);

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        Interlocked.Increment(ref _writes);
        return bytes.Length;
    }

    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes) => default;

    public ValueTask FinishAsync() => default;

    public void Abort()
    {
    }
}
