using BatchKit.Broadcast.Receiving;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Connections;

/// <summary>Runs one connection from its first byte until it is gone, in the same way for every protocol.</summary>
internal sealed class ConnectionLifetime(BroadcastTransport transport, IOutputBuffer? output, TimeProvider timeProvider, ILogger logger)
{
    /// <summary>Completes when the connection has left its groups and the table, and its handler has ended. Never throws.</summary>
    /// <param name="connection">A connection that is not in the table yet.</param>
    /// <param name="inbound">Reads its input.</param>
    /// <param name="handlers">Creates its handler.</param>
    public async Task RunAsync(ClientConnection connection, IInbound inbound, Func<ClientConnection, IConnectionHandler> handlers)
    {
        using var ending = new CancellationTokenSource();
        IConnectionHandler? handler = null;
        transport.Connections.Add(connection);

        // A drain that began before this connection was in the table has not seen it.
        if (transport.Connections.IsClosed)
            connection.Close(DisconnectReason.Stopped);
        try
        {
            handler = handlers(connection);
            var serving = ServeAsync(connection, inbound, handler, ending.Token);
            await Task.WhenAny(serving, connection.Closing).ConfigureAwait(false);
            if (connection.IsAborted)
                await ending.CancelAsync().ConfigureAwait(false);
            else if (serving.IsCompleted)
                await ApplyInputEndAsync(connection, handler, await serving.ConfigureAwait(false), ending.Token).ConfigureAwait(false);
            await WriteRestAsync(connection, serving).ConfigureAwait(false);
            await ending.CancelAsync().ConfigureAwait(false);
            await serving.ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (ending.IsCancellationRequested)
        {
            // The connection was ended while its handler waited.
        }
        catch (Exception exception)
        {
            Log.HandlerFailed(logger, exception, connection);
            connection.Close(DisconnectReason.HandlerFailed);
            await WriteRestAsync(connection, Task.CompletedTask).ConfigureAwait(false);
        }

        transport.Groups.LeaveAll(connection);
        transport.Connections.Remove(connection);
        transport.Connections.CountDisconnect(await connection.Closing.ConfigureAwait(false));
        if (handler is not null)
            await EndAsync(connection, handler).ConfigureAwait(false);
    }

    private async Task<InboundEnd> ServeAsync(ClientConnection connection, IInbound inbound, IConnectionHandler handler, CancellationToken cancellationToken)
    {
        await handler.StartAsync(cancellationToken).ConfigureAwait(false);
        return await inbound.RunAsync(new InboundDelivery(connection, handler, output, transport.Options), cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Closes or aborts the connection, depending on how its input ended.</summary>
    private async Task ApplyInputEndAsync(ClientConnection connection, IConnectionHandler handler, InboundEnd end, CancellationToken cancellationToken)
    {
        if (end == InboundEnd.Lost)
        {
            connection.Abort(DisconnectReason.ConnectionLost);
            return;
        }

        if (end == InboundEnd.Finished)
        {
            var finishing = handler.FinishAsync(cancellationToken).AsTask();
            if (await WaitAsync(connection, finishing).ConfigureAwait(false) && await finishing.ConfigureAwait(false))
                await WaitAsync(connection, connection.Closing).ConfigureAwait(false);
        }

        connection.Close(end == InboundEnd.ProtocolError ? DisconnectReason.ProtocolError : DisconnectReason.ClientClosed);
    }

    /// <summary>Lets the client read what is queued and close its side. Closing with unread input would reset the connection, and the client might lose the last lines.</summary>
    /// <remarks>At a stop the drain aborts late connections at the same moment. The outcome of unread output is the same, whichever comes first.</remarks>
    private async Task WriteRestAsync(ClientConnection connection, Task serving)
    {
        if (!await WaitAsync(connection, Task.WhenAll(connection.Output.Ended, serving)).ConfigureAwait(false))
            connection.Abort(IsStopping(connection) ? DisconnectReason.Stopped : DisconnectReason.SlowConsumer);
        connection.Output.Abort(DeliveryOutcome.DroppedClosed);
    }

    private async Task<bool> WaitAsync(ClientConnection connection, Task task)
    {
        try
        {
            var limit = IsStopping(connection) ? transport.Options.DrainTimeout : transport.Options.CloseTimeout;
            await task.WaitAsync(limit, timeProvider).ConfigureAwait(false);
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    private static bool IsStopping(ClientConnection connection) => connection.Closing is { IsCompletedSuccessfully: true, Result: DisconnectReason.Stopped };

    private async Task EndAsync(ClientConnection connection, IConnectionHandler handler)
    {
        try
        {
            await handler.EndAsync(await connection.Closing.ConfigureAwait(false)).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            Log.HandlerFailed(logger, exception, connection);
        }
    }
}
