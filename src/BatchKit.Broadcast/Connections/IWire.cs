namespace BatchKit.Broadcast.Connections;

/// <summary>Takes a connection's bytes to its client. Called by one <see cref="SendQueue"/>, which never overlaps its calls.</summary>
/// <remarks>A broken connection throws <see cref="IOException"/>, <see cref="System.Net.Sockets.SocketException"/> or <see cref="ObjectDisposedException"/>.</remarks>
internal interface IWire
{
    /// <summary>True while it holds bytes that it took and could not write yet; <see cref="WriteAsync"/> writes them first. Never throws.</summary>
    bool HasUnsent => false;

    /// <summary>Writes what can be written without waiting.</summary>
    /// <returns>How many of the bytes were taken, from the first on; fewer than given when the client does not read fast enough.</returns>
    int TryWrite(ReadOnlySpan<byte> bytes);

    /// <summary>Writes all of the bytes, waiting for the client to read; the memory is the caller's again when the task has ended.</summary>
    ValueTask WriteAsync(ReadOnlyMemory<byte> bytes);

    /// <summary>Ends the sending side after the last byte.</summary>
    ValueTask FinishAsync();

    /// <summary>Ends the connection at once; what waits in <see cref="WriteAsync"/> and in its reader fails. May be called at any time, from any thread.</summary>
    void Abort();
}
