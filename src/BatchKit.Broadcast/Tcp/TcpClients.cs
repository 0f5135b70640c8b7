using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Telnet;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Leads a listener's clients from the moment that they are accepted until they are gone.</summary>
internal sealed class TcpClients(
    BroadcastTransport transport,
    BroadcastListenerOptions options,
    Func<ClientConnection, IConnectionHandler> handlers,
    IOutputBuffer? output,
    TimeProvider timeProvider,
    ILogger logger)
{
    private readonly ConnectionLife _life = new(transport, output, timeProvider, logger);
    private readonly byte[] _turnAwayMessage = Encoding.UTF8.GetBytes(transport.Options.TurnAwayMessage ?? "");
    private readonly ConcurrentDictionary<ClientConnection, bool> _connections = new();
    private readonly RunningTasks _establishing = new();
    private readonly RunningTasks _running = new();

    /// <summary>Takes a client that was accepted; returns at once.</summary>
    public void Take(Socket socket)
    {
        _running.Begin();
        _establishing.Begin();
        _ = RunAsync(socket);
    }

    /// <summary>Completes when every client that was taken has its place among the transport's connections, or none.</summary>
    public Task WhenEstablishedAsync() => _establishing.WhenNone();

    /// <summary>Ends the clients that are not being closed already, and waits until all are gone.</summary>
    public async Task EndAsync()
    {
        foreach (var (connection, _) in _connections)
        {
            if (!connection.Closing.IsCompleted)
                connection.Abort(DisconnectReason.Stopped);
        }

        await _running.WhenNone().ConfigureAwait(false);
    }

    private async Task RunAsync(Socket socket)
    {
        await Task.Yield();
        var living = Task.CompletedTask;
        var address = default(IPAddress);
        try
        {
            socket.NoDelay = true;
            var remote = (IPEndPoint)socket.RemoteEndPoint!;
            address = remote.Address;
            if (!transport.Connections.TryTakePlace(address))
            {
                TurnAway(socket);
                return;
            }

            living = LiveAsync(socket, remote);
        }
        finally
        {
            _establishing.End();
        }

        await living.ConfigureAwait(false);
        transport.Connections.ReleasePlace(address);
        socket.Dispose();
        _running.End();
    }

    private async Task LiveAsync(Socket socket, IPEndPoint remote)
    {
        var queue = new SendQueue(new SocketWire(socket), transport.Limits, transport.Counters, timeProvider);
        var origin = new ConnectionOrigin(remote, IsSecure: false);
        var (connection, reader) = Make(origin, queue);
        _connections[connection] = true;
        await _life.RunAsync(connection, new ByteInbound(connection, new SocketSource(socket), reader, transport.Options, logger), handlers).ConfigureAwait(false);
        _connections.TryRemove(connection, out _);
    }

    private (ClientConnection Connection, IRecordReader Reader) Make(ConnectionOrigin origin, SendQueue queue)
    {
        var handle = transport.Connections.NextHandle();
        if (options.Protocol == ClientProtocol.Telnet)
            return TelnetConnectionFactory.Create(handle, origin, queue, transport.Options, options.Telnet, timeProvider);
        var connection = new ClientConnection(handle, ClientProtocol.Tcp, origin, queue, WireFormat.Raw, timeProvider);
        return (connection, new CutRecordReader(options.Cutter, transport.Options.MaxRecordBytes));
    }

    private void TurnAway(Socket socket)
    {
        Log.TurnedAway(logger, "no place is left");
        socket.Blocking = false;
        socket.Send(_turnAwayMessage, SocketFlags.None, out _);
        socket.Dispose();
        _running.End();
    }
}
