using System.Net.Sockets;
using BatchKit.Broadcast.Connections;
using Microsoft.AspNetCore.Connections.Features;
using Microsoft.AspNetCore.Http;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>Writes to a WebSocket client: through the server's stream, or directly to its socket once the client has shown that the server has nothing left to write.</summary>
/// <param name="stream">The server's own stream.</param>
/// <param name="socket">The socket under it; null when it may not be written to directly.</param>
/// <param name="path">Which of the two.</param>
/// <param name="ending">Aborts the connection.</param>
/// <param name="own">The socket that tells what the client has acknowledged, also where the stream writes to it; null when it carries other requests too.</param>
internal sealed class UpgradedWire(Stream stream, Socket? socket, OutputPath path, UpgradedEnding ending, Socket? own = null) : IWire
{
    private readonly SocketWire? _socket = socket is null ? null : new SocketWire(socket);

    // The path is chosen once. A copy here saves a broadcast a fetch from memory for each client.
    private bool _isDirect;

    public OutputPath Path => path;

    public UpgradedEnding Ending => ending;

    public long? AcknowledgedBytes => Acknowledgements.Of(own);

    /// <summary>
    /// Asks the client for a pong, through the stream. When the server reports the upgrade, its response has not been sent yet: a direct write at that moment overtook it in 3,717 of 4,000 tries. The
    /// pong shows that the response has arrived.
    /// </summary>
    public ValueTask StartAsync() => path.IsOpen ? WriteStreamAsync(WebSocketEncoder.PingFrame) : default;

    public int TryWrite(ReadOnlySpan<byte> bytes) => IsDirect ? _socket!.TryWrite(bytes) : 0;

    public async ValueTask WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        await path.Chosen.ConfigureAwait(false);
        ending.ThrowIfAborted();
        if (path.IsDirect)
            await _socket!.WriteAsync(bytes).ConfigureAwait(false);
        else
            await WriteStreamAsync(bytes).ConfigureAwait(false);
    }

    /// <summary>Only notes the end: the end of the request ends the sending side. The close frame was the last byte, and the client answers it.</summary>
    public ValueTask FinishAsync()
    {
        ending.NoteFinish();
        return default;
    }

    /// <summary>Ends the sending side when that is possible. For a client that broke the protocol, so that its answer can't be read.</summary>
    public async ValueTask EndSendingAsync()
    {
        if (!path.IsDirect)
            return;
        try
        {
            await _socket!.FinishAsync().ConfigureAwait(false);
        }
        catch (Exception failure) when (failure is SocketException or ObjectDisposedException)
        {
            // The client has ended both sides by now.
        }
    }

    public void Abort()
    {
        try
        {
            ending.Abort();
        }
        finally
        {
            // The choice ends a write that waits for it.
            path.ChooseStream("the connection is being ended");
        }
    }

    private bool IsDirect => _isDirect || (_isDirect = path.IsDirect);

    private async ValueTask WriteStreamAsync(ReadOnlyMemory<byte> bytes)
    {
        // A server's stream takes bytes for a connection that is gone and reports nothing; only the token tells.
        await stream.WriteAsync(bytes, ending.RequestAborted).ConfigureAwait(false);
        await stream.FlushAsync(ending.RequestAborted).ConfigureAwait(false);
        ending.ThrowIfAborted();
    }
}

/// <summary>Aborts an upgraded connection, as long as that is allowed.</summary>
internal sealed class UpgradedEnding(HttpContext context)
{
    // Guards all fields. Held during the abort, because the server reuses the context for another request once this one has ended.
    private readonly Lock _lock = new();
    private bool _isFinished;
    private bool _isRead;
    private bool _isOver;
    private bool _isAborted;

    /// <summary>Cancelled when the connection is gone.</summary>
    public CancellationToken RequestAborted { get; } = context.RequestAborted;

    /// <summary>Notes that the last byte was written.</summary>
    public void NoteFinish()
    {
        lock (_lock)
            _isFinished = true;
    }

    /// <summary>Notes whether the client's input is being read.</summary>
    public void NoteInput(bool isRead)
    {
        lock (_lock)
            _isRead = isRead;
    }

    /// <summary>Ends the connection at once, unless it has already ended properly: an abort would then lose what the server has still to send.</summary>
    public void Abort()
    {
        lock (_lock)
        {
            if (_isOver || (_isFinished && !_isRead))
                return;
            _isAborted = true;
            context.Abort();
        }
    }

    /// <summary>Throws once the connection was aborted: what a stream took after that was not sent.</summary>
    public void ThrowIfAborted()
    {
        lock (_lock)
        {
            if (_isAborted)
                throw new IOException("The connection was ended.");
        }
    }

    /// <summary>Notes that the request is about to end.</summary>
    public void NoteEnd()
    {
        lock (_lock)
            _isOver = true;
    }
}

/// <summary>The time in which a client's input is read.</summary>
internal readonly struct UpgradedInput : IDisposable
{
    private readonly UpgradedWire _wire;

    public UpgradedInput(UpgradedWire wire)
    {
        _wire = wire;
        wire.Ending.NoteInput(isRead: true);
    }

    public void Dispose()
    {
        _wire.Path.ChooseStream("the handler failed");
        _wire.Ending.NoteInput(isRead: false);
    }
}

/// <summary>
/// Ends a connection whose client does not read the last bytes from the server's pipe. The request has ended by then, and the server itself would wait forever: its minimum data rate does not
/// apply to upgraded connections.
/// </summary>
internal sealed class LingeringEnd
{
    private readonly IConnectionLifetimeFeature _connection;
    private readonly ITimer _limit;

    private LingeringEnd(IConnectionLifetimeFeature connection, TimeSpan limit, TimeProvider timeProvider)
    {
        _connection = connection;
        _limit = timeProvider.CreateTimer(static state => ((LingeringEnd)state!)._connection.Abort(), this, limit, Timeout.InfiniteTimeSpan);
    }

    /// <summary>Aborts the connection after the limit, unless it has ended by then.</summary>
    public static void Start(IConnectionLifetimeFeature connection, TimeSpan limit, TimeProvider timeProvider)
    {
        var end = new LingeringEnd(connection, limit, timeProvider);
        connection.ConnectionClosed.UnsafeRegister(static state => ((LingeringEnd)state!)._limit.Dispose(), end);
    }
}
