using BatchKit.Broadcast.Receiving;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Connections;

/// <summary>Runs one connection from its first byte until it is gone, in the same way for every protocol.</summary>
internal sealed class ConnectionLifetime(BroadcastTransport transport, IOutputBuffer? output, TimeProvider timeProvider, ILogger logger)
{
    private volatile bool _isStopped;

    /// <summary>From now on each connection is closed as it starts: its listener has ended those that are in the table.</summary>
    public void Stop() => _isStopped = true;

    /// <summary>Completes when the connection has left its groups and the table, and its handler has ended. Never throws.</summary>
    /// <param name="connection">A connection that is not in the table yet.</param>
    /// <param name="inbound">Reads its input.</param>
    /// <param name="handlers">Creates its handler.</param>
    /// <param name="place">Its place. It is free for another client as soon as the connection has ended; while its handler still runs, it counts as a lingering one.</param>
    public async Task RunAsync(ClientConnection connection, IInbound inbound, Func<ClientConnection, IConnectionHandler> handlers, ClientPlace place)
    {
        var calls = Start(connection, inbound, handlers, place);
        await connection.Output.Ending.ConfigureAwait(false);
        await EndAsync(calls).ConfigureAwait(false);
    }

    /// <summary>Puts the connection into the table and starts its handler and its reader. Call <see cref="EndAsync"/> when its output is ending.</summary>
    /// <remarks>This is for callers that wait for the end themselves, so that a silent connection holds one state machine less. Never throws.</remarks>
    public HandlerCalls Start(ClientConnection connection, IInbound inbound, Func<ClientConnection, IConnectionHandler> handlers, ClientPlace place)
    {
        var calls = new HandlerCalls(connection, place, transport, logger);
        transport.Connections.Add(connection);

        // A drain, or the end of its listener, that began before this connection was in the table has not seen it.
        if (_isStopped || transport.Connections.IsClosed)
            connection.Close(DisconnectReason.Stopped);
        calls.Start(inbound, handlers, output);
        return calls;
    }

    /// <summary>Completes when the connection has left its groups and the table, and its handler has ended. Never throws.</summary>
    public async Task EndAsync(HandlerCalls calls)
    {
        var connection = calls.Connection;
        await WaitForEndAsync(calls).ConfigureAwait(false);

        // The handler is told first and awaited last, because it may take long and the connection has ended.
        var cancelling = calls.CancelAsync();
        transport.Groups.LeaveAll(connection);
        transport.Connections.Remove(connection);
        var reason = await connection.Closing.ConfigureAwait(false);
        transport.Connections.CountDisconnect(reason);
        await connection.Output.Ended.ConfigureAwait(false);
        calls.Place.Linger();
        await cancelling.ConfigureAwait(false);
        await calls.Reading.ConfigureAwait(false);
        await calls.EndAsync(reason).ConfigureAwait(false);
        calls.Place.Dispose();
        calls.Dispose();
    }

    /// <summary>Waits until the connection's output has ended or the connection is closed. Lets the client read what is queued and close its side: closing with unread input would reset the connection.</summary>
    /// <remarks>At a stop the drain aborts late connections at the same moment. The outcome of unread output is the same in both cases.</remarks>
    private async Task WaitForEndAsync(HandlerCalls calls)
    {
        var connection = calls.Connection;
        await Task.WhenAny(connection.Closing, connection.Output.Ended).ConfigureAwait(false);
        if (!connection.IsAborted)
        {
            var isInTime = await WaitAsync(connection, WrittenAndReadAsync(calls)).ConfigureAwait(false);

            // Only a reader that met a protocol error ends the output before it closes the connection.
            connection.Close(DisconnectReason.ProtocolError);
            if (!isInTime)
                connection.Abort(IsStopping(connection) ? DisconnectReason.Stopped : DisconnectReason.SlowConsumer);
        }

        connection.Output.Abort(DeliveryOutcome.DroppedClosed);
    }

    /// <summary>Completes when all output is written and the input has ended, or when the connection breaks or is aborted.</summary>
    private static async Task WrittenAndReadAsync(HandlerCalls calls)
    {
        var connection = calls.Connection;
        if (await connection.Output.Ended.ConfigureAwait(false) == DeliveryOutcome.Failed)
            connection.Abort(DisconnectReason.ConnectionLost);
        else if (!calls.HasInputEnded)
            await Task.WhenAny(calls.InputEnded, connection.Aborting).ConfigureAwait(false);
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
}

/// <summary>Owns one connection's handler: its calls are made one after another, each is awaited, and their token is cancelled when the connection ends.</summary>
internal sealed class HandlerCalls(ClientConnection connection, ClientPlace place, BroadcastTransport transport, ILogger logger) : IDisposable
{
    private readonly CancellationTokenSource _ending = new();
    private LazyCompletion<InboundEnd> _inputEnded;
    private IConnectionHandler? _handler;

    public ClientConnection Connection => connection;

    /// <summary>The connection's place, which becomes free as soon as the connection has ended.</summary>
    public ClientPlace Place => place;

    /// <summary>Reads the input; null before the start.</summary>
    public IInbound? Inbound { get; private set; }

    public bool HasInputEnded => _inputEnded.IsSet;

    /// <summary>Completes when the input has ended and no record is with the handler any more.</summary>
    public Task InputEnded => _inputEnded.Task;

    /// <summary>Completes when only the handler's last call, for the end, remains. Never fails.</summary>
    public Task Reading { get; private set; } = Task.CompletedTask;

    /// <summary>Starts the handler and reads until the input ends, and closes or aborts the connection, depending on how it ended. Never throws.</summary>
    /// <remarks>Only after an orderly end (<see cref="InboundEnd.Finished"/>) is the connection still open; the handler is then told of that end.</remarks>
    public void Start(IInbound inbound, Func<ClientConnection, IConnectionHandler> handlers, IOutputBuffer? output)
    {
        Inbound = inbound;
        Reading = ReadAsync(StartAsync(handlers), output);
    }

    // When a handler starts at once, only one state machine remains while the client is silent.
    private Task ReadAsync(ValueTask<bool> starting, IOutputBuffer? output) =>
        starting.IsCompletedSuccessfully ? ReadAsync(RunAsync(starting.Result, output)) : ReadSlowAsync(starting, output);

    private async Task ReadSlowAsync(ValueTask<bool> starting, IOutputBuffer? output) =>
        await ReadAsync(RunAsync(await starting.ConfigureAwait(false), output)).ConfigureAwait(false);

    /// <returns>False when the handler failed.</returns>
    private async ValueTask<bool> StartAsync(Func<ClientConnection, IConnectionHandler> handlers)
    {
        try
        {
            _handler = handlers(connection);
            connection.RequiresAuthentication = _handler.RequiresAuthentication;
            await _handler.StartAsync(_ending.Token).ConfigureAwait(false);
            return true;
        }
        catch (Exception failure)
        {
            connection.CloseAfter(failure, logger, transport.LogThrottle, _ending.Token);
            return false;
        }
    }

    private Task<InboundEnd> RunAsync(bool isStarted, IOutputBuffer? output) => isStarted ? Inbound!.RunAsync(Delivery(_handler!, output), _ending.Token) : DiscardAsync();

    private async Task ReadAsync(Task<InboundEnd> running)
    {
        var end = InboundEnd.Lost;
        var hasFailed = false;
        try
        {
            end = await running.ConfigureAwait(false);
        }
        catch (Exception failure)
        {
            connection.CloseAfter(failure, logger, transport.LogThrottle, _ending.Token);
            hasFailed = true;
        }

        await EndInputAsync(end, hasFailed).ConfigureAwait(false);
    }

    private async Task EndInputAsync(InboundEnd end, bool hasFailed)
    {
        if (hasFailed)
            end = await DiscardAsync().ConfigureAwait(false);

        // When the connection is being closed, a client that is gone fails the output by itself.
        if (end == InboundEnd.Lost && !connection.IsClosing)
            connection.Abort(DisconnectReason.ConnectionLost);
        else if (end is InboundEnd.ProtocolError or InboundEnd.Closed)
            connection.Close(end == InboundEnd.ProtocolError ? DisconnectReason.ProtocolError : DisconnectReason.ClientClosed);
        _inputEnded.TrySet(end);
        if (!connection.IsClosing)
            await FinishAsync().ConfigureAwait(false);
    }

    /// <summary>Tells the handler that the client has ended its sending side, and closes the connection when the handler or the application asks for it, or at the time limit. Never throws.</summary>
    private async Task FinishAsync()
    {
        var limit = transport.Options.CloseTimeout;
        using var timer = transport.Clock.CreateTimer(
            static state => ((ClientConnection)state!).Close(DisconnectReason.ClientClosed), connection, limit, Timeout.InfiniteTimeSpan);
        try
        {
            if (await _handler!.FinishAsync(_ending.Token).ConfigureAwait(false))
            {
                timer.Change(limit, Timeout.InfiniteTimeSpan);
                await connection.Closing.ConfigureAwait(false);
            }
        }
        catch (Exception failure)
        {
            connection.CloseAfter(failure, logger, transport.LogThrottle, _ending.Token);
        }

        connection.Close(DisconnectReason.ClientClosed);
    }

    /// <summary>Cancels the token of the call that runs. A callback that the handler registered may throw; that has no other effect.</summary>
    public async Task CancelAsync()
    {
        try
        {
            await _ending.CancelAsync().ConfigureAwait(false);
        }
        catch (AggregateException failure)
        {
            Log.HandlerFailed(logger, transport.LogThrottle, failure, connection);
        }
    }

    /// <summary>Makes the last call, after all others have ended. Never throws.</summary>
    public async Task EndAsync(DisconnectReason reason)
    {
        try
        {
            if (_handler is not null)
                await _handler.EndAsync(reason).ConfigureAwait(false);
        }
        catch (Exception failure)
        {
            Log.HandlerFailed(logger, transport.LogThrottle, failure, connection);
        }
    }

    public void Dispose() => _ending.Dispose();

    private InboundDelivery Delivery(IConnectionHandler handler, IOutputBuffer? output) => new(connection, handler, output, transport.Options, transport.LogThrottle, logger);

    /// <summary>Reads on after a failure, and discards what comes: the connection is closed, so that nothing is delivered.</summary>
    private async Task<InboundEnd> DiscardAsync()
    {
        try
        {
            if (!connection.IsAborted)
                return await Inbound!.RunAsync(Delivery(IdleHandler.Shared, output: null), _ending.Token).ConfigureAwait(false);
        }
        catch (Exception)
        {
            // The first failure is logged, and this one ends the same connection.
        }

        return InboundEnd.Finished;
    }
}

/// <summary>Stands in for a handler that may not be called: the connection's own handler failed, or other code reads its input.</summary>
internal sealed class IdleHandler : IConnectionHandler
{
    public static IdleHandler Shared { get; } = new();

    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
}
