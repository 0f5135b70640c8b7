using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace BatchKit.RabbitMQ;

/// <summary>One connection with one channel. It is opened on demand, and again after it was lost or discarded.</summary>
/// <remarks>
/// The client's own recovery is off, because after a restart of the broker it may leave a publisher waiting indefinitely (rabbitmq-dotnet-client, issue 1930). A new connection always works.
/// </remarks>
internal sealed class RabbitMqConnection : IAsyncDisposable
{
    private readonly RabbitMqOptions _options;
    private readonly CreateChannelOptions _channelOptions;
    private readonly Func<IConnection, IChannel, CancellationToken, Task> _prepare;

    // Null unless the preparation takes it.
    private readonly RabbitMqNodeLease? _lease;
    private readonly RabbitMqConnector _connector;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly RabbitMqClosings _closings;
    private readonly ConnectionReporter _reporter;

    // Held while connecting. Callers that wait for the same attempt share its outcome.
    private readonly SemaphoreSlim _opening = new(1, 1);
    private int _attempts;
    private Exception? _failure;

    // The attempt in the background that a send has started and does not wait for.
    private volatile Task _connecting = Task.CompletedTask;

    // Ends the attempt under way when the connection is closed: whoever waits for it may have no token.
    private readonly CancellationTokenSource _closing = new();

    private volatile OpenChannel? _open;

    // The last channel, if the broker closed it alone, as over a message that it refuses: the broker was not away.
    private volatile OpenChannel? _closedAlone;
    private volatile RabbitMqAlarm? _alarm;
    private volatile bool _isClosed;

    public RabbitMqConnection(RabbitMqOptions options, string purpose, CreateChannelOptions channelOptions,
        Func<IConnection, IChannel, CancellationToken, Task> prepare, TimeProvider timeProvider, ILogger logger, ConnectionMetrics? metrics, RabbitMqNodeLease? lease = null)
    {
        _options = options;
        _channelOptions = channelOptions;
        _prepare = prepare;
        _lease = lease;
        _connector = new RabbitMqConnector(options, purpose, timeProvider);
        _timeProvider = timeProvider;
        _logger = logger;
        _closings = new RabbitMqClosings(timeProvider);
        _reporter = new ConnectionReporter(options.ConnectionChanged, purpose, Target, metrics, "rabbitmq");
    }

    /// <summary>The broker's name in errors and logs, without user name and password.</summary>
    public string Target => _connector.Target;

    public bool IsOpen => _open is { Channel.IsOpen: true };

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    public string? CallbackFault => _reporter.CallbackFault;

    /// <summary>The reason that the broker gives for blocking publishers; null when it accepts messages.</summary>
    public string? BlockedReason => _alarm?.Reason;

    /// <summary>Returns the open channel; connects when no channel is open.</summary>
    /// <exception cref="IOException">The broker can't be reached, or refuses the login. The message names the broker and the reason.</exception>
    public ValueTask<OpenChannel> OpenAsync(CancellationToken cancellationToken) =>
        _open is { Channel.IsOpen: true } open ? new ValueTask<OpenChannel>(open) : OpenSlowAsync(cancellationToken);

    /// <summary>Connects when <see cref="RabbitMqOptions.FailFast"/> is set, so that the host does not start without the broker.</summary>
    public Task StartAsync(CancellationToken cancellationToken) => _options.FailFast ? OpenAsync(cancellationToken).AsTask() : Task.CompletedTask;

    /// <summary>Returns why nothing can be sent now, or null when it can. Connects to find out.</summary>
    public async Task<string?> FindFaultAsync(CancellationToken cancellationToken)
    {
        try
        {
            await OpenAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (IOException exception)
        {
            return FailureText.MessageOf(exception);
        }
        catch (ObjectDisposedException)
        {
            return $"The connection to {Target} is closed.";
        }

        return BlockedReason is { } reason ? $"{Target} accepts no messages now: {reason}." : null;
    }

    /// <summary>Returns the open channel at once, or fails at once and connects in the background.</summary>
    /// <exception cref="IOException">No channel is open now. The message has the reason of the last failed attempt.</exception>
    public OpenChannel GetOpen()
    {
        if (_open is { Channel.IsOpen: true } open)
            return open;
        ObjectDisposedException.ThrowIf(_isClosed, this);
        if (_connecting.IsCompleted)
            _connecting = CallerContext.RunWithout(ConnectInBackgroundAsync);
        throw new IOException($"{Target} is not connected now, and {nameof(RabbitMqOptions.FailFast)} is set. {(_failure is null ? null : FailureText.MessageOf(_failure))}".TrimEnd(), _failure);
    }

    /// <summary>Gives up a channel that did not answer or broke. The next <see cref="OpenAsync"/> connects again.</summary>
    /// <param name="channel">The channel.</param>
    /// <param name="reason">Why the connection was lost, for the application's callback; null when this process closes it.</param>
    public void Discard(OpenChannel channel, string? reason)
    {
        if (Interlocked.CompareExchange(ref _open, null, channel) != channel)
            return;
        _closedAlone = channel is { ReachedTimestamp: not OpenChannel.NotYet, Connection.IsOpen: true, Channel.CloseReason.Initiator: ShutdownInitiator.Peer } ? channel : null;
        if (reason is not null)
            _reporter.Lose(reason);
        _closings.Start(channel.Connection, channel.Channel, channel.Leave);
    }

    /// <summary>Explains in a human-readable sentence what the broker refused, or that it did not answer: the client cancels its own calls at its limits.</summary>
    public IOException Explain(Exception exception) => _connector.Explain(exception, timedOut: exception is OperationCanceledException);

    /// <summary>Closes the connection, and waits at most for the limit.</summary>
    public async Task CloseAsync(TimeSpan limit)
    {
        _isClosed = true;
        // Not awaited yet: who waits for the attempt under way may continue in it.
        var cancelling = _closing.CancelAsync();
        using var late = new CancellationTokenSource(limit, _timeProvider);
        // A callback of the application's may hang in the attempt under way. Such an attempt publishes no channel any more.
        var turn = _opening.WaitAsync(late.Token);
        await turn.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (_open is { } open)
            Discard(open, reason: null);
        _reporter.Close();
        if (turn.IsCompletedSuccessfully)
            _opening.Release();
        await Task.WhenAll(cancelling, _connecting).WaitAsync(late.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
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
                throw new IOException(FailureText.MessageOf(failure), failure);
            return await ConnectAsync(cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            _opening.Release();
        }
    }

    private async Task ConnectInBackgroundAsync()
    {
        try
        {
            await OpenSlowAsync(CancellationToken.None).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is IOException or ObjectDisposedException)
        {
            // The failure is logged, and the next send reports it.
        }
    }

    private async Task<OpenChannel> ConnectAsync(CancellationToken cancellationToken)
    {
        if (_open is { } lost)
            Discard(lost, "The channel was closed.");
        using var either = CancellationTokenSource.CreateLinkedTokenSource(_closing.Token, cancellationToken);
        // A token of its own, cancelled on the pool: what the application's connection factory registers with it may hang, and must hold up neither this attempt's end nor who cancels.
        var ending = new CancellationTokenSource();
        // The client's loops run as long as the connection, so they must not capture the context of the caller that connects.
        var attempt = CallerContext.RunWithout(() => OpenChannelAsync(ending.Token));
        try
        {
            // Some of the client's waits ignore the token, but the time limit must still apply.
            await (_lease?.WaitAsync(attempt, _options.ConnectTimeout, either.Token) ?? attempt.WaitAsync(_options.ConnectTimeout, _timeProvider, either.Token)).ConfigureAwait(false);
            var open = await attempt.ConfigureAwait(false);
            ObjectDisposedException.ThrowIf(_isClosed, this);
            _failure = null;
            _open = open;
            ConnectionLog.Connected(_logger, _connector.Purpose, Target);
            _reporter.Open();
            open.Watch?.HasOpened();
            if (!open.Channel.IsOpen)
                _reporter.Lose(open.Channel.CloseReason is { } reason ? RabbitMqClosing.Describe(reason) : "The connection ended at once.");
            return open;
        }
        catch (Exception exception)
        {
            _ = ending.CancelAsync().ContinueWith(static late => late.Exception, TaskScheduler.Default);
            _closings.Start(attempt);
            _closedAlone = null;
            cancellationToken.ThrowIfCancellationRequested();
            ObjectDisposedException.ThrowIf(_isClosed, this);
            throw Remember(exception);
        }
        finally
        {
            Interlocked.Increment(ref _attempts);
        }
    }

    private async Task<OpenChannel> OpenChannelAsync(CancellationToken cancellationToken)
    {
        var connection = await _connector.ConnectAsync(cancellationToken).ConfigureAwait(false);
        IChannel? channel = null;
        _alarm = RabbitMqAlarm.Of(connection);
        var watch = new ConnectionWatch(connection, _connector, _logger, () => OnRecovered(channel));
        try
        {
            watch.Start();
            // While a connection recovers itself, the client forgets a channel whose creation is cancelled, and the broker keeps it. The caller abandons this attempt at its time limit, and it ends itself later.
            channel = await connection.CreateChannelAsync(_channelOptions, _connector.OwnsConnections ? cancellationToken : CancellationToken.None).ConfigureAwait(false);
            cancellationToken.ThrowIfCancellationRequested();
            var ours = channel;
            channel.ChannelShutdownAsync += (_, reason) => OnChannelShutdownAsync(ours, reason);
            await _prepare(connection, channel, cancellationToken).ConfigureAwait(false);
            var opened = new OpenChannel(connection, channel, _timeProvider.GetTimestamp(), CreateLeave(watch), watch);
            return _closedAlone is { } earlier ? opened with { ReachedTimestamp = earlier.ReachedTimestamp } : opened;
        }
        catch
        {
            _closings.Start(connection, channel, CreateLeave(watch));
            throw;
        }
    }

    private Action? CreateLeave(ConnectionWatch watch) => _connector.OwnsConnections ? null : watch.Leave;

    private IOException Remember(Exception exception)
    {
        var failure = _connector.Explain(exception, timedOut: exception is TimeoutException);
        var text = FailureText.MessageOf(failure);
        if (_failure is null || FailureText.MessageOf(_failure) != text)
            ConnectionLog.Failed(_logger, _connector.Purpose, text);
        _failure = failure;
        _reporter.Lose(text);
        return failure;
    }

    private Task OnChannelShutdownAsync(IChannel channel, ShutdownEventArgs reason)
    {
        if (_isClosed || _open is not { IsOnTrial: false } open || open.Channel != channel)
            return Task.CompletedTask;
        // The application's connection may recover the channel before it tells of that.
        if (!open.Connection.IsOpen)
            open.Restart(OpenChannel.NotYet);
        _reporter.Lose(RabbitMqClosing.Describe(reason));
        return Task.CompletedTask;
    }

    // The application's connection recovers its channels too, before it tells of that.
    private void OnRecovered(IChannel? channel)
    {
        if (_isClosed || _open is not { Channel.IsOpen: true } open || open.Channel != channel)
            return;
        open.Restart(_timeProvider.GetTimestamp());
        _reporter.Open();
    }
}

/// <summary>An open channel, its connection, and the time stamp of its opening.</summary>
/// <param name="Connection">The connection, which carries only this channel unless it is the application's.</param>
/// <param name="Channel">The channel.</param>
/// <param name="OpenedTimestamp">The time stamp; that of its recovery once the client has recovered it.</param>
/// <param name="Leave">Removes BatchKit's event handlers from the application's connection; null for a connection that is closed with the channel.</param>
/// <param name="Watch">Logs its end and its alarms; null for none.</param>
internal sealed record OpenChannel(IConnection Connection, IChannel Channel, long OpenedTimestamp, Action? Leave, ConnectionWatch? Watch = null)
{
    /// <summary>A time stamp that is later than any other, for a channel that is being recovered.</summary>
    public const long NotYet = long.MaxValue;

    public long OpenedTimestamp { get; private set; } = OpenedTimestamp;

    /// <summary>Since when the broker has been connected without a break. A channel that the broker closes alone, and its successor, make none.</summary>
    public long ReachedTimestamp { get; set; } = OpenedTimestamp;

    /// <summary>True while its user tries something that the broker may refuse, and has another way then: its end is no lost connection.</summary>
    public bool IsOnTrial { get; set; }

    /// <summary>Gives a channel that the client recovers the time stamps of a new one.</summary>
    public void Restart(long timestamp) => OpenedTimestamp = ReachedTimestamp = timestamp;
}
