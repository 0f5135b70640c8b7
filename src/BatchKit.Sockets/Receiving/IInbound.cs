using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Receiving;

/// <summary>Reads what one client sends, until its input ends.</summary>
internal interface IInbound
{
    /// <summary>Reads, and delivers the records of each read.</summary>
    /// <param name="delivery">Gets the records of one read at a time.</param>
    /// <param name="cancellationToken">Cancelled when the connection ends.</param>
    /// <returns>Why the input ended.</returns>
    Task<InboundEnd> RunAsync(InboundDelivery delivery, CancellationToken cancellationToken);
}

/// <summary>Why a client's input ended.</summary>
internal enum InboundEnd
{
    /// <summary>The client ended its sending side properly; it may still read.</summary>
    Finished = 0,

    /// <summary>The client closed the connection properly, for example by a WebSocket's close frame; it no longer reads.</summary>
    Closed = 1,

    /// <summary>The connection broke, or was ended from this side.</summary>
    Lost = 2,

    /// <summary>The client broke a rule of its protocol or a limit, and was told so when the protocol allows it.</summary>
    ProtocolError = 3,
}

/// <summary>Delivers the records of each read to the connection's handler, within a buffering scope, the limits for unauthenticated clients and the connection's pace.</summary>
/// <remarks>A handler that fails closes the connection. Reading continues, because closing with unread input would reset the connection.</remarks>
internal sealed class InboundDelivery(ClientConnection connection, IConnectionHandler handler, IOutputBuffer? output, BroadcastOptions options, LogThrottle throttle, ILogger logger)
{
    // After so many bytes without a wait other clients get their turn: a client may send faster than it is served.
    private const int MaxTurnBytes = 1024 * 1024;

    // A WebSocket's pong to the server's first ping needs no pace of its own.
    private const int MaxUnpacedBytes = 16;

    private int _turnBytes;

    /// <summary>Completes when the client may be read again: it is within its limit, and others have had their turn.</summary>
    /// <param name="hasWaited">True when the last read had to wait for the client: its turn was over.</param>
    /// <param name="readBytes">What the last read counts for.</param>
    public ValueTask WhenMayReadAsync(bool hasWaited, int readBytes)
    {
        _turnBytes = hasWaited ? 0 : _turnBytes + readBytes;
        if (_turnBytes >= MaxTurnBytes)
            return YieldAsync();
        if (connection.StartedPace is not { } pace || connection.IsClosing)
            return default;
        var delay = pace.WhenMayReadAsync(connection.Closing);
        return delay.IsCompletedSuccessfully ? delay : HoldAsync(delay);
    }

    /// <summary>Notes the bytes of one read.</summary>
    /// <returns>False when the client sent more than allowed and is being disconnected.</returns>
    public bool TryNote(int bytes)
    {
        connection.Activity.NoteBytes(bytes);
        if (connection.Activity.ReceivedBytes > MaxUnpacedBytes)
            connection.Pace?.NoteBytes(bytes);
        if (connection.IsAuthenticated || !(connection.Activity.ReceivedBytes > options.MaxUnauthenticatedBytes))
            return true;
        connection.Close(DisconnectReason.NotAuthenticated);
        return false;
    }

    /// <summary>Delivers records to the handler, as many at once as the connection's pace allows; their memory may be reused when the task has ended. Never throws.</summary>
    public ValueTask DeliverAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        var allowed = connection.Pace?.TakeRecords(records.Length) ?? records.Length;
        return allowed == records.Length ? DeliverNowAsync(records, cancellationToken) : DeliverSlowlyAsync(records, allowed, cancellationToken);
    }

    private async ValueTask DeliverSlowlyAsync(ReadOnlyMemory<ReceivedRecord> records, int allowed, CancellationToken cancellationToken)
    {
        var pace = connection.Pace!;
        while (!connection.IsClosing)
        {
            if (allowed > 0)
                await DeliverNowAsync(records[..allowed], cancellationToken).ConfigureAwait(false);
            records = records[allowed..];
            if (records.IsEmpty)
                return;
            await HoldAsync(pace.WhenMayDeliverAsync(connection.Closing)).ConfigureAwait(false);
            allowed = pace.TakeRecords(records.Length);
        }
    }

    private ValueTask DeliverNowAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        // Input after a close is read only so that the connection ends without a reset.
        if (connection.IsClosing)
            return default;
        connection.Activity.NoteRecord();
        connection.Activity.Hold();
        var scope = BeginScope();
        ValueTask handling;
        try
        {
            handling = handler.ReceiveAsync(records, cancellationToken);
        }
        catch (Exception failure)
        {
            handling = ValueTask.FromException(failure);
        }

        if (!handling.IsCompletedSuccessfully)
            return FinishAsync(handling, scope, cancellationToken);
        var sending = scope.DisposeAsync();
        if (!sending.IsCompletedSuccessfully)
            return AwaitSentAsync(sending, cancellationToken);
        connection.Activity.Resume();
        return sending;
    }

    // A buffer that has stopped takes no replies. The handler still gets what the client sent.
    private BufferingScope BeginScope()
    {
        try
        {
            return output?.BeginBufferingScope(connection.Handle) ?? default;
        }
        catch (ObjectDisposedException)
        {
            return default;
        }
    }

    private async ValueTask YieldAsync()
    {
        _turnBytes = 0;
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        if (connection.StartedPace is { } pace)
            await HoldAsync(pace.WhenMayReadAsync(connection.Closing)).ConfigureAwait(false);
    }

    private async ValueTask HoldAsync(ValueTask delay)
    {
        connection.Activity.Hold();
        await delay.ConfigureAwait(false);
        connection.Activity.Resume();
    }

    private async ValueTask FinishAsync(ValueTask handling, BufferingScope scope, CancellationToken cancellationToken)
    {
        Exception? failure = null;
        try
        {
            await handling.ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            failure = exception;
        }

        // A failed handler's replies are sent too, before the close.
        await AwaitSentAsync(scope.DisposeAsync(), cancellationToken).ConfigureAwait(false);
        if (failure is not null)
            connection.CloseAfter(failure, logger, throttle, cancellationToken);
    }

    // Reading continues when the replies are on the client's wire or in its queue, so that the replies to a client that sends faster than it is served do not pile up.
    private async ValueTask AwaitSentAsync(ValueTask sending, CancellationToken cancellationToken)
    {
        try
        {
            await sending.AsTask().WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            // The connection ends. A next hop that hangs must not hold it open.
        }
        catch (OutputDeliveryException)
        {
            // The buffer has counted it. Reading notices when the client is gone.
        }
        catch (Exception failure)
        {
            connection.CloseAfter(failure, logger, throttle, cancellationToken);
        }

        connection.Activity.Resume();
    }
}
