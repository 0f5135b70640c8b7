using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>A wire that takes over from another and changes what passes, as compression does: here, to upper case.</summary>
internal sealed class LoudWire(IWire inner) : IWire
{
    public static byte[] Change(ReadOnlySpan<byte> bytes)
    {
        var changed = bytes.ToArray();
        for (var index = 0; index < changed.Length; index++)
            changed[index] = (byte)char.ToUpperInvariant((char)changed[index]);
        return changed;
    }

    public int TryWrite(ReadOnlySpan<byte> bytes) => inner.TryWrite(Change(bytes));

    public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes) => inner.WriteAsync(Change(bytes.Span));

    public ValueTask FinishAsync() => inner.FinishAsync();

    public void Abort() => inner.Abort();
}
