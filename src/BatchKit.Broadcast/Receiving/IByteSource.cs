namespace BatchKit.Broadcast.Receiving;

/// <summary>Where a client's bytes come from.</summary>
/// <remarks>A broken connection throws <see cref="IOException"/>, <see cref="System.Net.Sockets.SocketException"/> or <see cref="ObjectDisposedException"/>.</remarks>
internal interface IByteSource
{
    /// <summary>What <see cref="ReadAsync"/> returns when nothing waits.</summary>
    const int NothingYet = -1;

    /// <summary>Completes when there may be something to read. Needs no buffer meanwhile.</summary>
    /// <returns>Nothing of meaning: a task with a result is what sockets and streams have ready.</returns>
    ValueTask<int> WaitAsync();

    /// <summary>Reads what there is.</summary>
    /// <returns>How many bytes; 0 at the end; <see cref="NothingYet"/>.</returns>
    ValueTask<int> ReadAsync(Memory<byte> buffer);
}
