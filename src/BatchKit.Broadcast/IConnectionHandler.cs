namespace BatchKit.Broadcast;

/// <summary>Gets what one client sends. Made for each connection; its members are called one at a time.</summary>
/// <remarks>
/// It is called on the thread that read the socket: return soon, or await. While it runs, nothing more is read from this client, so a slow handler slows
/// its own client only. What it throws disconnects its client and is logged.
/// </remarks>
public interface IConnectionHandler
{
    /// <summary>The client is connected: output for its handle and joining groups work from here on.</summary>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    ValueTask StartAsync(CancellationToken cancellationToken) => default;

    /// <summary>Takes the records that one read brought, in order.</summary>
    /// <remarks>A buffering scope for the connection's handle is open around the call, so all replies to one read leave in one write.</remarks>
    /// <param name="records">At least one; they and their bytes are valid until the returned task has ended.</param>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken);

    /// <summary>The client sends no more, but still reads.</summary>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    /// <returns>
    /// False, the default, to close it after what is queued. True when somebody closes it later, after the answers to what it sent: it is
    /// closed anyway after <see cref="BroadcastOptions.CloseTimeout"/>.
    /// </returns>
    ValueTask<bool> FinishAsync(CancellationToken cancellationToken) => default;

    /// <summary>The connection is gone, and has left its groups. Called once for each that was started.</summary>
    /// <param name="reason">Why.</param>
    ValueTask EndAsync(DisconnectReason reason) => default;
}
