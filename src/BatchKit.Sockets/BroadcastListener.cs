using System.Net;
using System.Net.Sockets;
using BatchKit.Broadcast.Tcp;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Broadcast;

/// <summary>Accepts TCP or telnet clients. Each becomes a connection of the transport, with its own handler.</summary>
/// <remarks>To stop, call <see cref="StopAsync"/>, then <see cref="BroadcastTransport.DrainAsync"/>, then <see cref="DisposeAsync"/>. All members are thread-safe.</remarks>
public sealed class BroadcastListener : IBlockingDisposable
{
    private readonly BroadcastListenerOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly TcpClients _clients;
    private readonly CancellationTokenSource _stopping = new();
    private readonly CancellationToken _stoppingToken;
    private Socket? _socket;
    private Task _accepting = Task.CompletedTask;
    private IPEndPoint? _endPoint;

    /// <summary>Creates a listener that does not listen yet.</summary>
    /// <param name="transport">The transport that serves the connections; its <see cref="BroadcastOptions"/> apply to them.</param>
    /// <param name="options">The listener's own settings.</param>
    /// <param name="handlers">Creates the handler of a new connection.</param>
    /// <param name="output">
    /// The buffer that handlers write to: all replies to one read then leave in one write. Null when they write elsewhere or open their own buffering scopes.
    /// </param>
    /// <param name="timeProvider">The clock of all time limits, the same as the transport's, which is used when null.</param>
    /// <param name="logger">Logs the start and failures of clients; nothing is logged when null.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">A setting is outside its range; the message names it.</exception>
    public BroadcastListener(
        BroadcastTransport transport,
        BroadcastListenerOptions options,
        Func<ClientConnection, IConnectionHandler> handlers,
        IOutputBuffer? output = null,
        TimeProvider? timeProvider = null,
        ILogger<BroadcastListener>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(handlers);
        OptionsRules.ThrowIfInvalid(new BroadcastListenerOptionsValidator(), options);
        _options = options;
        _timeProvider = timeProvider is null || timeProvider == transport.Clock.Inner ? transport.Clock : timeProvider;
        _logger = transport.Guard(logger ?? NullLogger<BroadcastListener>.Instance);
        _stoppingToken = _stopping.Token;
        _clients = new TcpClients(transport, options, handlers, output, _timeProvider, _logger);
    }

    /// <summary>How many clients were accepted since the start.</summary>
    internal long Accepted => _clients.Accepted;

    /// <summary>The end point it listens on, with the real port.</summary>
    /// <exception cref="InvalidOperationException">The listener was not started.</exception>
    public IPEndPoint EndPoint => _endPoint ?? throw new InvalidOperationException("The listener was not started. Call StartAsync, or read the end point after the host has started.");

    /// <summary>Starts listening. Call it once.</summary>
    /// <param name="cancellationToken">Cancels the start, not the listener.</param>
    /// <exception cref="IOException">The port is in use, or the address does not belong to this machine; the message names the end point and the setting.</exception>
    /// <exception cref="InvalidOperationException">The listener was started before.</exception>
    /// <exception cref="ObjectDisposedException">The listener was stopped.</exception>
    public Task StartAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        ObjectDisposedException.ThrowIf(_stoppingToken.IsCancellationRequested, this);
        if (_socket is not null)
            throw new InvalidOperationException("The listener was started before. Call StartAsync once.");
        var socket = AcceptLoop.Listen(_options.EndPoint, _options.Backlog);
        _socket = socket;
        _endPoint = (IPEndPoint)socket.LocalEndPoint!;
        var loop = new AcceptLoop(socket.AcceptAsync, client => _clients.Take(client, _stoppingToken), _endPoint, _timeProvider, _logger, _clients.NoteTaking);

        // Clients outlive the caller, so they must not inherit its activity or its buffering scope.
        _accepting = CallerContext.Without(() => loop.RunAsync(_stoppingToken));
        Log.Listening(_logger, _options.Protocol, _endPoint);
        return Task.CompletedTask;
    }

    /// <summary>Stops accepting connections. Existing connections stay. It may be called again.</summary>
    /// <param name="cancellationToken">Cancels the wait for clients that are still being accepted.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (!_stoppingToken.IsCancellationRequested)
            await _stopping.CancelAsync().ConfigureAwait(false);
        _socket?.Dispose();
        await _accepting.WaitAsync(cancellationToken).ConfigureAwait(false);
        await _clients.WhenEnteredAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Stops, disconnects all connections that are not already being closed, and waits until they are gone, at most for <see cref="BroadcastOptions.DrainTimeout"/> and <see cref="BroadcastOptions.CloseTimeout"/> together: handlers that hang are left behind and logged.</summary>
    /// <remarks>Drain the transport first, so that every client can read what is queued and the goodbye. It may be called again.</remarks>
    public async ValueTask DisposeAsync()
    {
        // One limit for both waits: a handler that blocks its thread keeps its client from entering.
        using var limit = new CancellationTokenSource(_clients.EndLimit, _timeProvider);
        try
        {
            await StopAsync(limit.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // Clients that enter later are closed then.
        }

        await _clients.EndAsync(limit.Token).ConfigureAwait(false);
        _stopping.Dispose();
    }
}
