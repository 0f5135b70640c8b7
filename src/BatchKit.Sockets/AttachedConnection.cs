using System.Net;
using System.Security.Claims;
using BatchKit.Broadcast.Connections;
using BatchKit.Transports;

namespace BatchKit.Broadcast;

/// <summary>A connection that other code accepted and that a <see cref="BroadcastTransport"/> writes to. It has a handle, groups, a bounded queue and counters, like every other connection.</summary>
/// <remarks>
/// <para>The code that accepted the connection owns it: it reads the input, and it closes the connection after <see cref="Ending"/> or <see cref="DisposeAsync"/>. The transport only writes, and never closes or
/// disposes what was attached; a <see cref="System.Net.WebSockets.WebSocket"/> gets the close frame. Nothing else may write until <see cref="Ended"/> has completed.</para>
/// <para>The client counts as authenticated, and <see cref="BroadcastOptions.IdleTimeout"/> does not apply, because the transport does not see the input. All members are thread-safe.</para>
/// </remarks>
public sealed class AttachedConnection : IAsyncDisposable
{
    // What a write takes to end once its token is cancelled.
    private static readonly TimeSpan Grace = TimeSpan.FromSeconds(1);

    private readonly BroadcastTransport _transport;
    private readonly AttachedWire _wire;

    private AttachedConnection(BroadcastTransport transport, ClientConnection connection, AttachedWire wire)
    {
        Connection = connection;
        (_transport, _wire) = (transport, wire);
        Ending = wire.Ending;
        Ended = connection.Closing;
    }

    /// <summary>The connection, as every member of the transport knows it.</summary>
    public ClientConnection Connection { get; }

    /// <summary>The handle for its output; never reused for another connection.</summary>
    public OutputHandle Handle => Connection.Handle;

    /// <summary>
    /// Cancelled when nothing more will be written: after the last byte of a connection that is closed, and at once when its client does not read, when a write failed, or when it is aborted. Read the
    /// connection with this token, and close it when the token is cancelled.
    /// </summary>
    public CancellationToken Ending { get; }

    /// <summary>Completes when the connection has left its groups and no write is under way, with the reason of its end. It never fails.</summary>
    public Task<DisconnectReason> Ended { get; private set; }

    /// <summary>Ends the connection from the side of the code that accepted it: waits until its queued output is written, for at most <see cref="BroadcastOptions.CloseTimeout"/>, or <see cref="BroadcastOptions.DrainTimeout"/>
    /// while the transport stops. The rest is dropped and counted.</summary>
    /// <remarks>Close what was attached afterwards. It may be called again, and by a write, for which it waits a second longer than the longer of these limits.</remarks>
    public async ValueTask DisposeAsync()
    {
        Connection.Close(DisconnectReason.ClientClosed);
        var options = _transport.Options;
        var limit = options.DrainTimeout > options.CloseTimeout ? options.DrainTimeout : options.CloseTimeout;
        await ((Task)Ended).WaitAsync(limit + Grace, _transport.Clock).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    /// <summary>Starts a connection, which is in the transport's table when this returns.</summary>
    /// <param name="transport">The transport.</param>
    /// <param name="connection">A connection that is not in the table yet.</param>
    /// <param name="wire">Its wire.</param>
    /// <param name="place">Its place.</param>
    /// <param name="closed">Cancelled when its client is gone, if that is known.</param>
    internal static AttachedConnection Start(BroadcastTransport transport, ClientConnection connection, AttachedWire wire, ClientPlace place, CancellationToken closed)
    {
        var attached = new AttachedConnection(transport, connection, wire);
        transport.Attached.Begin();

        // The connection outlives its caller, so it must not inherit its activity or its buffering scope.
        attached.Ended = CallerContext.Without(() => attached.RunAsync(place, closed));
        return attached;
    }

    private async Task<DisconnectReason> RunAsync(ClientPlace place, CancellationToken closed)
    {
        var lifetime = new ConnectionLifetime(_transport, output: null, _transport.Clock, _transport.Logger);
        var registration = closed.UnsafeRegister(static state => ((ClientConnection)state!).Abort(DisconnectReason.ConnectionLost), Connection);
        await using (registration.ConfigureAwait(false))
            await lifetime.RunAsync(Connection, new UnreadInbound(Connection), static _ => IdleHandler.Shared, place).ConfigureAwait(false);
        try
        {
            await _wire.DisposeAsync().ConfigureAwait(false);
        }
        catch (AggregateException failure)
        {
            Log.HandlerFailed(_transport.Logger, _transport.LogThrottle, failure, Connection);
        }

        _transport.Attached.End();
        return await Connection.Closing.ConfigureAwait(false);
    }
}

/// <summary>What the code that accepted a connection knows about it.</summary>
public sealed class AttachOptions
{
    /// <summary>The client's address, which <see cref="BroadcastOptions.MaxConnectionsPerAddress"/> counts; null, the default, when it is not known. When you attach a ConnectionContext without options, the context provides it.</summary>
    public IPEndPoint? RemoteEndPoint { get; init; }

    /// <summary>True when the client uses TLS; false by default. When you attach a ConnectionContext without options, the context provides it.</summary>
    public bool IsSecure { get; init; }

    /// <summary>The client's user; null by default. When you attach a ConnectionContext without options, the context provides it.</summary>
    public ClaimsPrincipal? User { get; init; }

    /// <summary>True to send a WebSocket's messages as binary; false, the default, for text. It has no effect on other connections.</summary>
    public bool SendsBinary { get; init; }
}
