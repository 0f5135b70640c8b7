namespace BatchKit.Broadcast.Connections;

/// <summary>Writes a large message in parts, so that a slow client that takes some of it is not held for one that takes nothing.</summary>
internal static class LargeWrite
{
    public static async ValueTask RunAsync(IWire wire, ReadOnlyMemory<byte> bytes, Action noteProgress)
    {
        for (; bytes.Length > PieceQueue.MaxWriteBytes; bytes = bytes[PieceQueue.MaxWriteBytes..])
        {
            await wire.WriteAsync(bytes[..PieceQueue.MaxWriteBytes]).ConfigureAwait(false);
            noteProgress();
        }

        await wire.WriteAsync(bytes).ConfigureAwait(false);
    }
}
