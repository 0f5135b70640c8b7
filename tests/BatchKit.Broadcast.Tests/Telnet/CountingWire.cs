using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Telnet;

/// <summary>A wire that takes everything and only counts it.</summary>
internal sealed class CountingWire : IWire
{
    public long Bytes { get; private set; }

    public int TryWrite(ReadOnlySpan<byte> bytes)
    {
        Bytes += bytes.Length;
        return bytes.Length;
    }

    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        Bytes += bytes.Length;
        return default;
    }

    public ValueTask FinishAsync() => default;

    public void Abort()
    {
    }
}
