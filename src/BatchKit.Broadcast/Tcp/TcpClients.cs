using System.Collections.Concurrent;
using System.Net.Sockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Telnet;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Leads a listener's clients from the moment that they are accepted until they are gone, and owns their tasks.</summary>
internal sealed class TcpClients(
    BroadcastTransport transport,
    BroadcastListenerOptions options,
    Func<ClientConnection, IConnectionHandler> handlers,
    IOutputBuffer? output,
    TimeProvider timeProvider,
    ILogger logger)
{
    private readonly ConnectionLife _life = new(transport, output, timeProvider, logger);
    private readonly ClientEntry _entry = new(transport, options, timeProvider, logger);
    private readonly ConcurrentDictionary<ClientConnection, bool> _connections = new();
    private readonly RunningTasks _entering = new();
    private readonly RunningTasks _running = new();

    /// <summary>Takes a client that was accepted; returns at once.</summary>
    /// <param name="socket">Owned from here on.</param>
    /// <param name="stopping">Ends those that are still shaking hands.</param>
    public void Take(Socket socket, CancellationToken stopping)
    {
        _running.Begin();
        _entering.Begin();
        _ = RunAsync(socket, stopping);
    }

    /// <summary>Completes when every client that was taken is one of the transport's connections, or gone.</summary>
    public Task WhenEnteredAsync() => _entering.WhenNone();

    /// <summary>Ends the clients that are not being closed already, and waits until all are gone.</summary>
    public Task EndAsync()
    {
        foreach (var (connection, _) in _connections)
        {
            if (!connection.Closing.IsCompleted)
                connection.Abort(DisconnectReason.Stopped);
        }

        return _running.WhenNone();
    }

    private async Task RunAsync(Socket socket, CancellationToken stopping)
    {
        // The next client is accepted meanwhile.
        await Task.Yield();
        try
        {
            using var place = new ClientPlace(transport.Connections);
            await EnterAsync(socket, place, stopping).Unwrap().ConfigureAwait(false);
        }
        catch (Exception failure)
        {
            Log.HandshakeFailed(logger, address: null, failure.Message);
        }

        socket.Dispose();
        _running.End();
    }

    /// <returns>The client's life, which has begun.</returns>
    private async Task<Task> EnterAsync(Socket socket, ClientPlace place, CancellationToken stopping)
    {
        try
        {
            var channel = await _entry.EnterAsync(socket, place, stopping).ConfigureAwait(false);
            return channel is null ? Task.CompletedTask : LiveAsync(channel);
        }
        finally
        {
            _entering.End();
        }
    }

    private async Task LiveAsync(ClientChannel channel)
    {
        var queue = new SendQueue(channel.Wire, transport.Limits, transport.Counters, timeProvider);
        var (connection, reader) = Make(channel.Origin, queue);
        _connections[connection] = true;
        await _life.RunAsync(connection, new ByteInbound(connection, channel.Source, reader, transport.Options, logger), handlers).ConfigureAwait(false);
        _connections.TryRemove(connection, out _);
        await queue.Ended.ConfigureAwait(false);
        if (channel.Source is IAsyncDisposable source)
            await source.DisposeAsync().ConfigureAwait(false);
    }

    private (ClientConnection Connection, IRecordReader Reader) Make(ConnectionOrigin origin, SendQueue queue)
    {
        var handle = transport.Connections.NextHandle();
        if (options.Protocol == ClientProtocol.Telnet)
            return TelnetConnectionFactory.Create(handle, origin, queue, transport.Options, options.Telnet, timeProvider);
        var connection = new ClientConnection(handle, ClientProtocol.Tcp, origin, queue, WireFormat.Raw, timeProvider);
        return (connection, new CutRecordReader(options.Cutter, transport.Options.MaxRecordBytes));
    }
}
