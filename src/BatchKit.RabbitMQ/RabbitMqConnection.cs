using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace BatchKit.RabbitMQ;

/// <summary>One connection with one channel. It is opened on demand, and opened again after it was lost or discarded.</summary>
/// <remarks>
/// The client's own recovery is off: after a restart of the broker it may leave a publisher waiting for ever (rabbitmq-dotnet-client, issue 1930). A new connection always works.
/// </remarks>
internal sealed class RabbitMqConnection : IAsyncDisposable
{
    private readonly RabbitMqOptions _options;
    private readonly CreateChannelOptions _channelOptions;
    private readonly Func<IConnection, IChannel, CancellationToken, Task> _prepare;
    private readonly RabbitMqConnector _connector;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly RabbitMqClosings _closings;

    // Held while connecting. Callers that wait for the same attempt share its outcome.
    private readonly SemaphoreSlim _opening = new(1, 1);
    private int _attempts;
    private Exception? _failure;

    private volatile OpenChannel? _open;
    private volatile string? _blockedReason;
    private volatile bool _isClosed;

    public RabbitMqConnection(RabbitMqOptions options, string purpose, CreateChannelOptions channelOptions,
        Func<IConnection, IChannel, CancellationToken, Task> prepare, TimeProvider timeProvider, ILogger logger)
    {
        _options = options;
        _channelOptions = channelOptions;
        _prepare = prepare;
        _connector = new RabbitMqConnector(options, purpose);
        _timeProvider = timeProvider;
        _logger = logger;
        _closings = new RabbitMqClosings(timeProvider);
    }

    /// <summary>The broker's name in errors and logs, without user name and password.</summary>
    public string Target => _connector.Target;

    public bool IsOpen => _open is { Channel.IsOpen: true };

    /// <summary>The reason that the connected broker gives for blocking publishers; null when it accepts messages.</summary>
    public string? BlockedReason => _blockedReason;

    /// <summary>Returns the open channel; connects when no channel is open.</summary>
    /// <exception cref="IOException">The broker can't be reached, or refuses the login. The message names the broker and the reason.</exception>
    public ValueTask<OpenChannel> OpenAsync(CancellationToken cancellationToken) =>
        _open is { Channel.IsOpen: true } open ? new ValueTask<OpenChannel>(open) : OpenSlowAsync(cancellationToken);

    /// <summary>Gives up a channel that did not answer or broke. The next <see cref="OpenAsync"/> connects again.</summary>
    public void Discard(OpenChannel channel)
    {
        if (Interlocked.CompareExchange(ref _open, null, channel) == channel)
            _closings.Start(channel.Connection);
    }

    /// <summary>Explains in a human-readable sentence what the broker refused.</summary>
    public IOException Explain(Exception exception) => _connector.Explain(exception, timedOut: false);

    /// <summary>Closes the connection for good, and waits at most for the limit.</summary>
    public async Task CloseAsync(TimeSpan limit)
    {
        _isClosed = true;
        await _opening.WaitAsync().ConfigureAwait(false);
        if (_open is { } open)
            Discard(open);
        _opening.Release();
        await _closings.WaitAsync(limit).ConfigureAwait(false);
    }

    public ValueTask DisposeAsync() => new(CloseAsync(RabbitMqClosings.Limit));

    private async ValueTask<OpenChannel> OpenSlowAsync(CancellationToken cancellationToken)
    {
        var attemptsBefore = Volatile.Read(ref _attempts);
        await _opening.WaitAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            if (_open is { Channel.IsOpen: true } open)
                return open;
            ObjectDisposedException.ThrowIf(_isClosed, this);
            if (_attempts != attemptsBefore && _failure is { } failure)
                throw new IOException(failure.Message, failure);
            return await ConnectAsync(cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _opening.Release();
        }
    }

    private async Task<OpenChannel> ConnectAsync(CancellationToken cancellationToken)
    {
        if (_open is { } lost)
            Discard(lost);
        using var limit = new CancellationTokenSource(_options.ConnectTimeout, _timeProvider);
        using var either = CancellationTokenSource.CreateLinkedTokenSource(limit.Token, cancellationToken);
        // The client's loops last as long as the connection, and must not keep what belongs to the caller who happens to connect.
        var attempt = CallerContext.RunWithout(() => OpenChannelAsync(either.Token));
        try
        {
            // Some of the client's waits ignore the token; the time limit must hold all the same.
            var open = await attempt.WaitAsync(either.Token).ConfigureAwait(false);
            _failure = null;
            _open = open;
            Log.Connected(_logger, _connector.Purpose, Target);
            return open;
        }
        catch (Exception exception)
        {
            _closings.Start(attempt);
            cancellationToken.ThrowIfCancellationRequested();
            throw Remember(exception, timedOut: limit.IsCancellationRequested);
        }
        finally
        {
            Interlocked.Increment(ref _attempts);
        }
    }

    private async Task<OpenChannel> OpenChannelAsync(CancellationToken cancellationToken)
    {
        var connection = await _connector.ConnectAsync(cancellationToken).ConfigureAwait(false);
        try
        {
            connection.ConnectionBlockedAsync += OnBlockedAsync;
            connection.ConnectionUnblockedAsync += OnUnblockedAsync;
            connection.ConnectionShutdownAsync += OnShutdownAsync;
            var channel = await connection.CreateChannelAsync(_channelOptions, cancellationToken).ConfigureAwait(false);
            await _prepare(connection, channel, cancellationToken).ConfigureAwait(false);
            _blockedReason = null;
            return new OpenChannel(connection, channel, _timeProvider.GetTimestamp());
        }
        catch
        {
            _closings.Start(connection);
            throw;
        }
    }

    private IOException Remember(Exception exception, bool timedOut)
    {
        var failure = _connector.Explain(exception, timedOut);
        if (_failure?.Message != failure.Message)
            Log.ConnectFailed(_logger, _connector.Purpose, failure.Message);
        _failure = failure;
        return failure;
    }

    private Task OnBlockedAsync(object sender, ConnectionBlockedEventArgs blocked)
    {
        _blockedReason = blocked.Reason;
        Log.Blocked(_logger, Target, blocked.Reason);
        return Task.CompletedTask;
    }

    private Task OnUnblockedAsync(object sender, AsyncEventArgs unblocked)
    {
        _blockedReason = null;
        Log.Unblocked(_logger, Target);
        return Task.CompletedTask;
    }

    private Task OnShutdownAsync(object sender, ShutdownEventArgs reason)
    {
        if (reason.Initiator != ShutdownInitiator.Application)
            Log.ConnectionLost(_logger, _connector.Purpose, Target, reason.ReplyText);
        return Task.CompletedTask;
    }
}

/// <summary>An open channel, the connection that carries only this channel, and the time stamp of its opening.</summary>
internal sealed record OpenChannel(IConnection Connection, IChannel Channel, long OpenedTimestamp);

/// <summary>Closes connections that were given up, while their successors work already, and waits for all of them at the end.</summary>
internal sealed class RabbitMqClosings(TimeProvider timeProvider)
{
    // The client allows an abort 5 s or more. A connection that hangs for longer ends by its heartbeat.
    public static readonly TimeSpan Limit = TimeSpan.FromSeconds(6);

    // Guards the list.
    private readonly Lock _lock = new();
    private readonly List<Task> _closings = [];

    public void Start(IConnection connection) => Add(CloseAsync(connection));

    /// <summary>Closes the connection that an abandoned attempt to connect may still open.</summary>
    public void Start(Task<OpenChannel> attempt) => Add(CloseLateAsync(attempt));

    /// <summary>Waits until all connections are closed, at most for the limit.</summary>
    public async Task WaitAsync(TimeSpan limit)
    {
        Task[] closings;
        lock (_lock)
            closings = [.. _closings];
        await Task.WhenAll(closings).WaitAsync(limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private void Add(Task closing)
    {
        lock (_lock)
        {
            _closings.RemoveAll(static task => task.IsCompleted);
            _closings.Add(closing);
        }
    }

    private async Task CloseLateAsync(Task<OpenChannel> attempt)
    {
        await attempt.ContinueWith(static _ => { }, CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default)
            .ConfigureAwait(false);
        if (attempt.IsCompletedSuccessfully)
            await CloseAsync(attempt.Result.Connection).ConfigureAwait(false);
        else
            _ = attempt.Exception;
    }

    private async Task CloseAsync(IConnection connection)
    {
        // How the abort ends matters to no one any more.
        var closing = AbortAsync(connection);
        await closing.WaitAsync(Limit, timeProvider).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    private static async Task AbortAsync(IConnection connection)
    {
        // The client may do much work before its first await, so it does not run on the caller's thread.
        await Task.Yield();
        await connection.AbortAsync().ConfigureAwait(false);
        await connection.DisposeAsync().ConfigureAwait(false);
    }
}
