namespace BatchKit.Broadcast.Connections;

/// <summary>A stream, such as one that encrypts: it may wait at any write, so everything goes through the queue.</summary>
/// <param name="stream">Written to here only; who reads it is somebody else.</param>
/// <param name="finish">Ends the sending side.</param>
/// <param name="abort">Ends the connection at once.</param>
internal sealed class StreamWire(Stream stream, Func<ValueTask> finish, Action abort) : IWire
{
    public int TryWrite(ReadOnlySpan<byte> bytes) => 0;

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        await stream.WriteAsync(bytes).ConfigureAwait(false);
        await stream.FlushAsync().ConfigureAwait(false);
    }

    public ValueTask FinishAsync() => finish();

    public void Abort() => abort();
}
