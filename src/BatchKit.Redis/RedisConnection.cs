using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using StackExchange.Redis;

namespace BatchKit.Redis;

/// <summary>A connection to the server: the application's, or one of our own that connects at the first use.</summary>
internal sealed class RedisConnection : IBlockingDisposable
{
    private const string Client = "client";
    private const string Wildcards = @"*?[\";
    private const string Remedy = "Check that the server runs, and the address, user and password of the connection.";
    private const string Loss = "Output for other nodes is lost until it is back.";

    // The client gives a connection up 20 s after a write that nothing answers. While nothing is sent, its own pings are the only writes, one a minute by default.
    private const int KeepAliveSeconds = 10;

    // Shorter than the limit of most programs that ask for the health.
    private static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(2);

    private readonly GuardedLogger _logger;
    private readonly ConfigurationOptions _settings;
    private readonly IConnectionMultiplexer? _application;
    private readonly ConnectionReporters _reporters = new();

    // Guards the fields below.
    private readonly Lock _lock = new();
    private Task<IConnectionMultiplexer>? _connecting;
    private bool _isDisposed;

    private volatile IConnectionMultiplexer? _redis;
    private volatile bool _isLost;

    /// <exception cref="InvalidOperationException">Its channel prefix has wildcards.</exception>
    public RedisConnection(RedisOptions options, IConnectionMultiplexer? application, ILogger? logger)
    {
        _logger = GuardedLogger.Of(logger);
        _application = options.Configuration is null ? application : null;
        _settings = ConfigurationOptions.Parse(options.Configuration ?? "localhost");
        _settings.AbortOnConnectFail = false;
        // A frame that waited in the client would come late, and hold up the frames behind it.
        _settings.BacklogPolicy = BacklogPolicy.FailFast;
        if (_settings.KeepAlive < 0)
            _settings.KeepAlive = KeepAliveSeconds;
        options.ConfigureConnection?.Invoke(_settings);
        Target = _application is null ? $"Redis at {string.Join(", ", _settings.EndPoints)}" : "the application's Redis";
        ThrowIfPattern(_application is null ? _settings.ChannelPrefix : PrefixOf(_application));
    }

    /// <summary>What it connects to, in human-readable form.</summary>
    public string Target { get; }

    public string? LoggerFault => _logger.Faults.Description;

    /// <summary>Why nothing can be sent or received now; null when there is a connection, whether or not the server answers.</summary>
    public string? Fault => _redis is { IsConnected: true } ? null : $"{Target} is not connected. {Remedy}";

    /// <summary>Returns the connection, which may be down.</summary>
    public Task<IConnectionMultiplexer> GetAsync()
    {
        lock (_lock)
        {
            ObjectDisposedException.ThrowIf(_isDisposed, this);
            return _connecting is null or { IsFaulted: true } ? _connecting = CallerContext.RunWithout(ConnectAsync)! : _connecting;
        }
    }

    /// <summary>Asks the server something, because the client takes a server that is paused or frozen for connected for more than a minute.</summary>
    /// <returns>Why nothing can be sent or received now; null when the server answers, even with an error.</returns>
    public async Task<string?> FindFaultAsync(Func<ISubscriber, Task> ask, CancellationToken cancellationToken)
    {
        if (Look() is { } fault)
            return fault;
        var answer = ask(_redis!.GetSubscriber());
        try
        {
            await answer.WaitAsync(AnswerLimit, TimeProvider.System, cancellationToken).ConfigureAwait(false);
            Answered();
            return null;
        }
        catch (RedisServerException)
        {
            return null;
        }
        // When the client gives the connection up, it cancels what waits for an answer, or fails it with an exception of any type.
        catch (Exception) when (!cancellationToken.IsCancellationRequested)
        {
            // The client ends an answer that never comes later.
            _ = answer.ContinueWith(static late => late.Exception, TaskScheduler.Default);
            var silence = Fault ?? $"{Target} did not answer within {AnswerLimit}. Check whether it is paused, overloaded or out of reach.";
            Lose(silence);
            return silence;
        }
    }

    /// <summary>Returns <see cref="Fault"/>, and tells it as a lost connection: the client may lose one without raising its event.</summary>
    public string? Look()
    {
        if (_redis is not null && Fault is { } fault)
            Lose(fault);
        return Fault;
    }

    /// <summary>Tells that the server has answered.</summary>
    public void Answered() => Restore(_redis);

    /// <summary>Tells that the server has not answered in time.</summary>
    public void Unanswered(string reason) => Lose(reason);

    /// <summary>Tells a reporter of the connection's changes.</summary>
    public async Task WatchAsync(ConnectionReporter reporter)
    {
        var redis = await GetAsync().ConfigureAwait(false);
        _reporters.TryAdd(reporter);
        if (redis.IsConnected)
            reporter.Open();
        else
            reporter.Lose("The server has not answered yet.");
    }

    /// <summary>Closes a connection of our own, and forgets the application's.</summary>
    public async ValueTask DisposeAsync()
    {
        Task<IConnectionMultiplexer>? connecting;
        lock (_lock)
        {
            connecting = _isDisposed ? null : _connecting;
            _isDisposed = true;
        }

        _reporters.Close();
        if (connecting is null || connecting.IsFaulted)
            return;
        var redis = await connecting.ConfigureAwait(false);
        redis.ConnectionFailed -= OnFailed;
        redis.ConnectionRestored -= OnRestored;
        if (_application is null)
            await redis.DisposeAsync().ConfigureAwait(false);
    }

    // The client puts it in front of what receivers subscribe to as it is, and in front of the channels that are published to.
    private void ThrowIfPattern(string? channelPrefix)
    {
        if (channelPrefix?.AsSpan().IndexOfAny(Wildcards) >= 0)
            throw new InvalidOperationException($"The {nameof(ConfigurationOptions.ChannelPrefix)} of {Target} is '{channelPrefix}'. Receivers subscribe to a pattern, in which the characters {Wildcards} are wildcards. Use a prefix without them.");
    }

    private static string? PrefixOf(IConnectionMultiplexer redis)
    {
        try
        {
            return ConfigurationOptions.Parse(redis.Configuration, ignoreUnknown: true).ChannelPrefix;
        }
        catch (ArgumentException)
        {
            // The application's own type need not have the form of StackExchange.Redis.
            return null;
        }
    }

    private async Task<IConnectionMultiplexer?> ConnectAsync()
    {
        var redis = _application ?? await ConnectionMultiplexer.ConnectAsync(_settings).ConfigureAwait(false);
        redis.ConnectionFailed += OnFailed;
        redis.ConnectionRestored += OnRestored;
        if (redis.IsConnected)
        {
            ConnectionLog.Connected(_logger, Client, Target);
        }
        else
        {
            _isLost = true;
            ConnectionLog.Failed(_logger, Client, $"{Target} has not answered yet. {Loss}");
            Restore(redis);
        }

        return _redis = redis;
    }

    private void OnFailed(object? sender, ConnectionFailedEventArgs change)
    {
        Lose(change.Exception is { } exception ? FailureText.MessageOf(exception) : change.FailureType.ToString());
        // The client raises its events on several threads: the connection may be back, and its return be told already.
        if (change.ConnectionType == ConnectionType.Interactive)
            OnRestored(sender, change);
    }

    private void OnRestored(object? sender, ConnectionFailedEventArgs change) => Restore(sender as IConnectionMultiplexer);

    // Its connection for commands and that for subscriptions end together.
    private void Lose(string reason)
    {
        if (!Interlocked.Exchange(ref _isLost, true))
            ConnectionLog.Lost(_logger, Client, Target, $"{reason} {Loss}");
        _reporters.Lose(reason);
    }

    private void Restore(IConnectionMultiplexer? redis)
    {
        if (redis is not { IsConnected: true })
            return;
        if (_isLost && Interlocked.Exchange(ref _isLost, false))
            ConnectionLog.Connected(_logger, Client, Target);
        _reporters.Open();
    }
}
