using System.Net;
using System.Net.Sockets;
using BatchKit.Broadcast.Tcp;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Broadcast;

/// <summary>Lets TCP or telnet clients in: each becomes a connection of the transport, with a handler of its own.</summary>
/// <remarks>To stop: <see cref="StopAsync"/>, then <see cref="BroadcastTransport.DrainAsync"/>, then <see cref="DisposeAsync"/>. Use it from any thread.</remarks>
public sealed class BroadcastListener : IAsyncDisposable
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

    /// <summary>Makes a listener that does not listen yet.</summary>
    /// <param name="transport">Gets the connections; its <see cref="BroadcastOptions"/> hold for them.</param>
    /// <param name="options">The listener's own settings.</param>
    /// <param name="handlers">Makes the handler of a new connection.</param>
    /// <param name="output">
    /// What the handlers write to: each read's replies then leave in one write. Null when they write elsewhere or open their own buffering scopes.
    /// </param>
    /// <param name="timeProvider">The clock of all time limits, the same as the transport's; the system's when null.</param>
    /// <param name="logger">Gets what goes wrong with clients; nobody when null.</param>
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
        BroadcastListenerOptionsValidator.ThrowIfInvalid(options);
        _options = options;
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = logger ?? NullLogger<BroadcastListener>.Instance;
        _stoppingToken = _stopping.Token;
        _clients = new TcpClients(transport, options, handlers, output, _timeProvider, _logger);
    }

    /// <summary>Where it listens, with the real port.</summary>
    /// <exception cref="InvalidOperationException">It was not started.</exception>
    public IPEndPoint EndPoint => _endPoint ?? throw new InvalidOperationException("The listener was not started.");

    /// <summary>Begins to listen. Call it once.</summary>
    /// <param name="cancellationToken">Ends the start, not the listener.</param>
    /// <exception cref="IOException">The port is in use, or the address is none of this machine; the message names the end point and the setting.</exception>
    /// <exception cref="InvalidOperationException">It was started before.</exception>
    public Task StartAsync(CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        ObjectDisposedException.ThrowIf(_stoppingToken.IsCancellationRequested, this);
        if (_socket is not null)
            throw new InvalidOperationException("The listener was started before.");
        var socket = ListenSocket.Open(_options.EndPoint, _options.Backlog);
        _socket = socket;
        _endPoint = (IPEndPoint)socket.LocalEndPoint!;
        var loop = new AcceptLoop(socket.AcceptAsync, client => _clients.Take(client, _stoppingToken), _endPoint, _timeProvider, _logger);

        // Clients live on after the caller: they inherit neither its activity nor its buffering scope.
        using (ExecutionContext.SuppressFlow())
            _accepting = loop.RunAsync(_stoppingToken);
        Log.Listening(_logger, _options.Protocol, _endPoint);
        return Task.CompletedTask;
    }

    /// <summary>Accepts nobody any more; connections stay. It may be called again.</summary>
    /// <param name="cancellationToken">Ends the wait for clients that are just being let in.</param>
    public async Task StopAsync(CancellationToken cancellationToken)
    {
        if (!_stoppingToken.IsCancellationRequested)
            await _stopping.CancelAsync().ConfigureAwait(false);
        _socket?.Dispose();
        await _accepting.WaitAsync(cancellationToken).ConfigureAwait(false);
        await _clients.WhenEnteredAsync().WaitAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Stops, disconnects who is not being closed already, and waits until all its connections are gone.</summary>
    /// <remarks>Drain the transport before, so that everybody reads what waits and the goodbye. It may be called again.</remarks>
    public async ValueTask DisposeAsync()
    {
        await StopAsync(CancellationToken.None).ConfigureAwait(false);
        await _clients.EndAsync().ConfigureAwait(false);
        _stopping.Dispose();
    }
}
