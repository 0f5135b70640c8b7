using System.Net.Sockets;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Fanout;
using BatchKit.Broadcast.Receiving;
using BatchKit.Broadcast.Telnet;
using BatchKit.Diagnostics;
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
    private readonly RunningTasks _entering = new();
    private readonly RunningTasks _running = new();
    private readonly ClientStarts<AcceptedClient> _starts = new(
        static client => _ = client.Clients.RunAsync(client.Socket, client.Stopping), timeProvider, waiting => Log.StartsBlock(logger, transport.LogThrottle, waiting));
    private long _accepted;

    /// <summary>How many clients were accepted since the start.</summary>
    public long Accepted => Interlocked.Read(ref _accepted);

    /// <summary>Takes over an accepted client; returns at once.</summary>
    /// <param name="socket">Owned by this object from now on.</param>
    /// <param name="stopping">Cancels handshakes.</param>
    public void Take(Socket socket, CancellationToken stopping)
    {
        Interlocked.Increment(ref _accepted);

        // Before it is started: a burst of thousands is accepted first.
        if (HandleLimit.IsNear(socket, transport.MostHandles))
        {
            using (socket)
                _entry.TurnAway(socket, "the process has nearly no file handles left (ulimit -n)");
            return;
        }

        _running.Begin();
        _entering.Begin();
        _starts.Add(new AcceptedClient(this, socket, stopping));
    }

    /// <summary>Notes that a loop begins to accept clients that wait, or that it has accepted all: until then they are not started.</summary>
    public void NoteTaking(bool isTaking) => _starts.NoteTaking(isTaking);

    /// <summary>Completes when every client that was taken is in the transport's table, or gone.</summary>
    public Task WhenEnteredAsync() => _entering.WhenNone();

    /// <summary>How long the end may take: a handler may hang.</summary>
    public TimeSpan EndLimit => transport.Options.DrainTimeout + transport.Options.CloseTimeout;

    /// <summary>Ends the clients that are not already being closed, and those that enter later, and waits until all are gone.</summary>
    /// <param name="limit">Ends the wait.</param>
    public async Task EndAsync(CancellationToken limit)
    {
        _lifetime.Stop();
        foreach (var connection in transport.Connections.All)
        {
            if (connection.Listener == this && !connection.IsClosing)
                connection.Abort(DisconnectReason.Stopped);
        }

        await _running.WhenNone().WaitAsync(limit).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (_running.Count is > 0 and var clients)
            Log.HandlersLinger(logger, clients, EndLimit);
    }

    private async Task RunAsync(Socket socket, CancellationToken stopping)
    {
        var place = new ClientPlace(transport.Connections);
        try
        {
            if (await _entry.EnterAsync(socket, place, stopping).ConfigureAwait(false) is { } channel)
                _ = RunConnectionAsync(socket, channel.Source, Start(channel, place));
            else
                End(socket, place);
        }
        catch (Exception failure)
        {
            Log.ClientLeft(logger, address: null, FailureText.MessageOf(failure));
            End(socket, place);
        }

        _entering.End();
    }

    private HandlerCalls Start(ClientChannel channel, ClientPlace place)
    {
        var queue = new SendQueue(channel.Wire, transport.Limits, transport.Counters, timeProvider);
        var (connection, reader) = Create(channel.Origin, queue);
        connection.Listener = this;
        return _lifetime.Start(connection, new ByteInbound(connection, channel.Source, reader, transport.Options, logger), handlers, place);
    }

    /// <summary>Waits for the connection's end. It is a method of its own, so that a silent client holds no state machine but this one and its reader's two.</summary>
    private async Task RunConnectionAsync(Socket socket, IByteSource source, HandlerCalls calls)
    {
        await calls.Connection.Output.Ending.ConfigureAwait(false);
        await EndAsync(source, calls).ConfigureAwait(false);
        End(socket, calls.Place);
    }

    private async Task EndAsync(IByteSource source, HandlerCalls calls)
    {
        try
        {
            await _lifetime.EndAsync(calls).ConfigureAwait(false);
            await calls.Connection.Output.Ended.ConfigureAwait(false);
            if (source is IAsyncDisposable disposable)
                await disposable.DisposeAsync().ConfigureAwait(false);
        }
        catch (Exception failure)
        {
            Log.ClientLeft(logger, address: null, FailureText.MessageOf(failure));
        }
    }

    private void End(Socket socket, ClientPlace place)
    {
        place.Dispose();
        socket.Dispose();
        _running.End();
    }

    private (ClientConnection Connection, IRecordReader Reader) Create(ConnectionOrigin origin, SendQueue queue)
    {
        var handle = transport.Connections.NextHandle();
        if (options.Protocol == ClientProtocol.Telnet)
            return TelnetConnectionFactory.Create(handle, origin, queue, transport.Options, options.Telnet, timeProvider, transport.InputLimitsFor(isText: true), options.FiltersText ?? true, transport.Connections);
        var connection = new ClientConnection(handle, ClientProtocol.Tcp, origin, queue, WireFormat.Raw, timeProvider) { InputLimits = transport.InputLimitsFor(isText: false) };
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
        InputLimits? inputLimits = null,
        bool filtersText = true,
        ConnectionTable? connections = null)
    {
        var ending = telnet.SendsGoAhead ? PromptEnding.GoAhead : PromptEnding.None;
        var format = WireFormat.Telnet(telnet.InitialCharset, ending, takesGmcp: false);
        var connection = new ClientConnection(handle, ClientProtocol.Telnet, origin, output, format, timeProvider)
        {
            Terminal = new TelnetTerminal { Charset = telnet.InitialCharset },
            Prompts = telnet.RepeatsPrompt ? new TelnetPrompts(timeProvider) : null,
            InputLimits = inputLimits,
        };
        var negotiation = new TelnetNegotiation(connection, telnet, connections);
        negotiation.Start();
        return (connection, new TelnetRecordReader(connection, negotiation, options.MaxRecordBytes, filtersText, timeProvider));
    }
}
