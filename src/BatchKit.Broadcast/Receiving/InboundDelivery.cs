namespace BatchKit.Broadcast.Receiving;

/// <summary>Hands what a read brought to the connection's handler, within a buffering scope and the limits for clients that are not authenticated.</summary>
internal sealed class InboundDelivery(ClientConnection connection, IConnectionHandler handler, IOutputBuffer? output, BroadcastOptions options)
{
    /// <summary>Notes the bytes of one read.</summary>
    /// <returns>False when the client may not send so much: it is being disconnected.</returns>
    public bool TryNote(int bytes)
    {
        connection.Activity.NoteBytes(bytes);
        if (connection.IsAuthenticated || !(connection.Activity.ReceivedBytes > options.MaxUnauthenticatedBytes))
            return true;
        connection.Close(DisconnectReason.NotAuthenticated);
        return false;
    }

    /// <summary>Hands records to the handler; they may be used again when the task has ended.</summary>
    public ValueTask DeliverAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        // What comes behind a close is read only so that the connection ends in order.
        if (connection.Closing.IsCompleted)
            return default;
        connection.Activity.NoteRecord();
        if (output is null)
            return handler.ReceiveAsync(records, cancellationToken);
        var scope = output.BeginBufferingScope(connection.Handle);
        ValueTask handling;
        try
        {
            handling = handler.ReceiveAsync(records, cancellationToken);
        }
        catch
        {
            scope.Dispose();
            throw;
        }

        if (!handling.IsCompletedSuccessfully)
            return FinishAsync(handling, scope, cancellationToken);
        var sending = scope.DisposeAsync();
        return sending.IsCompletedSuccessfully ? sending : AwaitSentAsync(sending, cancellationToken);
    }

    private static async ValueTask FinishAsync(ValueTask handling, BufferingScope scope, CancellationToken cancellationToken)
    {
        try
        {
            await handling.ConfigureAwait(false);
        }
        catch
        {
            scope.Dispose();
            throw;
        }

        await AwaitSentAsync(scope.DisposeAsync(), cancellationToken).ConfigureAwait(false);
    }

    // The client is read on when the replies are on its wire or in its queue: who sends faster than it is served waits, and its replies do not pile up.
    private static async ValueTask AwaitSentAsync(ValueTask sending, CancellationToken cancellationToken)
    {
        try
        {
            await sending.AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // The connection ends, and a hop that hangs must not keep it.
        }
        catch (OutputDeliveryException)
        {
            // Counted where it was given up, as for a client that is gone; its end is noticed by who reads it.
        }
    }
}
