using System.Collections.Concurrent;
using System.Net.Sockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Telnet;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tcp;

/// <summary>Runs a listener's clients from the moment they are accepted until they are gone, and owns their tasks.</summary>
internal sealed class TcpClients(
    BroadcastTransport transport,
    BroadcastListenerOptions options,
    Func<ClientConnection, IConnectionHandler> handlers,
    IOutputBuffer? output,
    TimeProvider timeProvider,
    ILogger logger)
{
    private readonly ConnectionLifetime _lifetime = new(transport, output, timeProvider, logger);
    private readonly ClientEntry _entry = new(transport, options, timeProvider, logger);
    private readonly ConcurrentDictionary<ClientConnection, bool> _connections = new();
    private readonly RunningTasks _entering = new();
    private readonly RunningTasks _running = new();
    private readonly ClientStarts<AcceptedClient> _starts = new(static client => _ = client.Clients.RunAsync(client.Socket, client.Stopping));
    private long _accepted;

    /// <summary>How many clients were accepted since the start.</summary>
    public long Accepted => Interlocked.Read(ref _accepted);

    /// <summary>Takes over an accepted client; returns at once.</summary>
    /// <param name="socket">Owned by this object from now on.</param>
    /// <param name="stopping">Cancels handshakes.</param>
    public void Take(Socket socket, CancellationToken stopping)
    {
        Interlocked.Increment(ref _accepted);
        _running.Begin();
        _entering.Begin();
        _starts.Add(new AcceptedClient(this, socket, stopping));
    }

    /// <summary>Notes that a loop begins to accept clients that wait, or that it has accepted all: until then they are not started.</summary>
    public void NoteTaking(bool isTaking) => _starts.NoteTaking(isTaking);

    /// <summary>Completes when every client that was taken is in the transport's table, or gone.</summary>
    public Task WhenEnteredAsync() => _entering.WhenNone();

    /// <summary>Ends the clients that are not already being closed, and waits until all are gone.</summary>
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

    /// <returns>The task of the running connection.</returns>
    private async Task<Task> EnterAsync(Socket socket, ClientPlace place, CancellationToken stopping)
    {
        try
        {
            var channel = await _entry.EnterAsync(socket, place, stopping).ConfigureAwait(false);
            return channel is null ? Task.CompletedTask : RunConnectionAsync(channel, place);
        }
        finally
        {
            _entering.End();
        }
    }

    private async Task RunConnectionAsync(ClientChannel channel, ClientPlace place)
    {
        var queue = new SendQueue(channel.Wire, transport.Limits, transport.Counters, timeProvider);
        var (connection, reader) = Create(channel.Origin, queue);
        _connections[connection] = true;
        var inbound = new ByteInbound(connection, channel.Source, reader, transport.Options, logger);
        await _lifetime.RunAsync(connection, inbound, handlers, place).ConfigureAwait(false);
        _connections.TryRemove(connection, out _);
        await queue.Ended.ConfigureAwait(false);
        if (channel.Source is IAsyncDisposable source)
            await source.DisposeAsync().ConfigureAwait(false);
    }

    private (ClientConnection Connection, IRecordReader Reader) Create(ConnectionOrigin origin, SendQueue queue)
    {
        var handle = transport.Connections.NextHandle();
        if (options.Protocol == ClientProtocol.Telnet)
            return TelnetConnectionFactory.Create(handle, origin, queue, transport.Options, options.Telnet, timeProvider, transport.CreatePace(isText: true), options.FiltersText ?? true, transport.Connections.TryCompress);
        var connection = new ClientConnection(handle, ClientProtocol.Tcp, origin, queue, WireFormat.Raw, timeProvider) { Pace = transport.CreatePace(isText: false) };
        return (connection, new CutRecordReader(options.Cutter, transport.Options.MaxRecordBytes, options.FiltersText ?? false));
    }
}

/// <summary>An accepted client that waits for its start.</summary>
internal readonly record struct AcceptedClient(TcpClients Clients, Socket Socket, CancellationToken Stopping);

/// <summary>Creates telnet connections and their readers.</summary>
internal static class TelnetConnectionFactory
{
    /// <summary>Creates a connection and sends it the server's offers.</summary>
    public static (ClientConnection Connection, IRecordReader Reader) Create(
        OutputHandle handle,
        ConnectionOrigin origin,
        SendQueue output,
        BroadcastOptions options,
        TelnetOptions telnet,
        TimeProvider timeProvider,
        InputPace? pace = null,
        bool filtersText = true,
        Func<ClientConnection, bool>? tryCompress = null)
    {
        var ending = telnet.SendsGoAhead ? PromptEnding.GoAhead : PromptEnding.None;
        var format = WireFormat.Telnet(telnet.InitialCharset, ending, takesGmcp: false);
        var connection = new ClientConnection(handle, ClientProtocol.Telnet, origin, output, format, timeProvider)
        {
            Terminal = new TelnetTerminal { Charset = telnet.InitialCharset },
            Prompts = telnet.RepeatsPrompt ? new TelnetPrompts(timeProvider) : null,
            Pace = pace,
        };
        var negotiation = new TelnetNegotiation(connection, telnet, () => tryCompress?.Invoke(connection) ?? true);
        negotiation.Start();
        return (connection, new TelnetRecordReader(connection, negotiation, options.MaxRecordBytes, filtersText, timeProvider));
    }
}
