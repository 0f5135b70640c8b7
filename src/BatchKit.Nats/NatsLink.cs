using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using NATS.Client.Core;
using NATS.Client.JetStream;

namespace BatchKit.Nats;

/// <summary>A connection to NATS: the application's, or one of our own. The client connects again by itself.</summary>
internal sealed class NatsLink : IBlockingDisposable
{
    /// <summary>The server answers a request within this time, or is about to be found dead.</summary>
    public static readonly TimeSpan AnswerLimit = TimeSpan.FromSeconds(5);

    // The client gives a silent server up when MaxPingOut pings, one here, are unanswered at the next one: within two of them.
    private static readonly TimeSpan PingInterval = TimeSpan.FromSeconds(5);

    private const string Client = "client";

    private readonly GuardedLogger _logger;
    private readonly string _remedy;
    private readonly ConnectionReporters _reporters = new();
    private volatile bool _isDisposed;
    private volatile string? _fault;

    public NatsLink(NatsOptions options, INatsConnection? application, ILogger? logger)
    {
        _logger = GuardedLogger.Of(logger);
        IsOurs = options.Url is not null || application is null;
        Connection = IsOurs ? new NatsConnection(CreateSettings(options)) : application!;
        JetStream = new NatsJSContext(Connection);
        Target = IsOurs ? $"NATS at {Name(Connection.Opts.Url)}" : "the application's NATS";
        _remedy = IsOurs
            ? $"Check that the server runs there, and the address and login of {nameof(NatsOptions.Url)}."
            : "Check that the server runs, and the address and login of the application's connection.";
        _fault = Connection.ConnectionState == NatsConnectionState.Open ? null : $"{Target} is not connected. {_remedy}";
        Connection.ConnectionOpened += OnOpenedAsync;
        Connection.ConnectionDisconnected += OnDisconnectedAsync;
        Connection.ServerError += OnServerErrorAsync;
    }

    /// <summary>Raised with the server's words when it refuses something, such as a subscription or a message. <see cref="ConfirmAsync"/> waits for it.</summary>
    public event EventHandler<NatsServerErrorEventArgs>? ServerFailed;

    public INatsConnection Connection { get; }

    public INatsJSContext JetStream { get; }

    /// <summary>False for the application's connection, which may have other subscriptions.</summary>
    public bool IsOurs { get; }

    /// <summary>What it connects to, without user name and password.</summary>
    public string Target { get; }

    /// <summary>The most bytes that the server takes in a message; null while it is not known.</summary>
    public int? MaxPayload => Connection.ServerInfo is { MaxPayload: > 0 and var most } ? most : null;

    public GuardedLogger Logger => _logger;

    public string? LoggerFault => _logger.Faults.Description;

    /// <summary>Why nothing can be sent or received now; null when it can.</summary>
    public string? Fault => Connection.ConnectionState == NatsConnectionState.Open ? null : _fault ?? $"{Target} is not connected. {_remedy}";

    /// <summary>A failure's text, with what to check where nothing at the server takes a request: NATS.Net says no more of that than "No responders".</summary>
    public static string Describe(Exception failure) => FailureText.CausesOf(failure).Any(static cause => cause is NatsNoRespondersException or NatsJSApiNoResponseException)
        ? $"{FailureText.MessageOf(failure).TrimEnd('.')}: JetStream is not enabled there (nats-server -js), the stream is gone, or the server is silent."
        : FailureText.MessageOf(failure);

    /// <summary>Tells a reporter of the connection's changes.</summary>
    public void Watch(ConnectionReporter reporter)
    {
        if (_reporters.TryAdd(reporter) && Connection.ConnectionState == NatsConnectionState.Open)
            reporter.Open();
    }

    /// <summary>Connects, unless it is connected.</summary>
    /// <exception cref="IOException">The server can't be reached, or refuses the login.</exception>
    public async Task OpenAsync(CancellationToken cancellationToken)
    {
        if (Connection.ConnectionState == NatsConnectionState.Open)
            return;
        var began = TimeProvider.System.GetTimestamp();
        try
        {
            // The client's own limits are the system's time, so this is too.
            await Connection.ConnectAsync().AsTask().WaitAsync(AnswerLimit, TimeProvider.System, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is NatsException or TimeoutException)
        {
            var fault = Explain(exception, TimeProvider.System.GetElapsedTime(began));
            Fail(fault);
            throw new IOException(fault, exception);
        }
    }

    /// <summary>Waits until the server has seen all that was sent, and what it refused of that was told.</summary>
    public async Task ConfirmAsync(CancellationToken cancellationToken)
    {
        await Connection.PingAsync(cancellationToken).ConfigureAwait(false);
        // The client queues its events, so that one may come a moment after the answer that the server sent behind it: the second answer is that moment.
        await Connection.PingAsync(cancellationToken).ConfigureAwait(false);
    }

    /// <summary>Throws when the server takes no frame of the largest size.</summary>
    /// <exception cref="InvalidOperationException">The server's <c>max_payload</c> is below <see cref="NatsOptions.MaxFrameBytes"/>.</exception>
    public void ThrowIfTooSmall(int maxFrameBytes)
    {
        if (MaxPayload is { } most && most < maxFrameBytes)
            throw new InvalidOperationException($"{Target} takes messages of at most {most} bytes (its max_payload), and {nameof(NatsOptions)}.{nameof(NatsOptions.MaxFrameBytes)} is {maxFrameBytes}. Lower the one, or raise the other.");
    }

    /// <summary>Closes a connection of our own, and forgets the application's.</summary>
    public async ValueTask DisposeAsync()
    {
        if (Interlocked.Exchange(ref _isDisposed, true))
            return;
        Connection.ConnectionOpened -= OnOpenedAsync;
        Connection.ConnectionDisconnected -= OnDisconnectedAsync;
        Connection.ServerError -= OnServerErrorAsync;
        _reporters.Close();
        if (IsOurs)
            await Connection.DisposeAsync().ConfigureAwait(false);
    }

    private static NatsOpts CreateSettings(NatsOptions options)
    {
        var settings = NatsOpts.Default with
        {
            Url = options.Url ?? "nats://localhost:4222",
            Name = "BatchKit",
            // A login that was refused may be right later.
            IgnoreAuthErrorAbort = true,
            ConnectTimeout = AnswerLimit,
            RequestTimeout = AnswerLimit,
            PingInterval = PingInterval,
            MaxPingOut = 1,
            ReconnectWaitMax = TimeSpan.FromSeconds(2),
        };
        return options.ConfigureConnection?.Invoke(settings) ?? settings;
    }

    private static string Name(string urls) => string.Join(", ", urls.Split(',', StringSplitOptions.TrimEntries)
        .Select(static url => url[(url.LastIndexOf('@') + 1)..].Replace("nats://", "", StringComparison.Ordinal).TrimEnd('/')));

    // The client's text for a server that is away only repeats its addresses. Its limit and ours end at the same moment: two texts would take turns, and each turn be logged.
    private string Explain(Exception exception, TimeSpan elapsed) => (exception.InnerException ?? exception) switch
    {
        NatsServerException refused => Refused(FailureText.MessageOf(refused)),
        NatsException or TimeoutException or OperationCanceledException when elapsed >= 0.9 * AnswerLimit => $"{Target} did not answer within {AnswerLimit}. {_remedy}",
        NatsException => $"{Target} can't be reached. {_remedy}",
        var cause => $"{Target} can't be reached: {FailureText.MessageOf(cause).TrimEnd('.')}. {_remedy}",
    };

    private string Refused(string reason) => $"{Target} refused the connection: {reason.TrimEnd('.')}. {_remedy}";

    private void Fail(string fault)
    {
        if (fault != _fault)
            ConnectionLog.Failed(_logger, Client, fault);
        _fault = fault;
        _reporters.Lose(fault);
    }

    private ValueTask OnOpenedAsync(object? sender, NatsEventArgs change)
    {
        _fault = null;
        ConnectionLog.Connected(_logger, Client, Target);
        _reporters.Open();
        return default;
    }

    private ValueTask OnServerErrorAsync(object? sender, NatsServerErrorEventArgs change)
    {
        // While the client connects again by itself, no one else hears of a refused login.
        if (change.Error.Contains("auth", StringComparison.OrdinalIgnoreCase) && Connection.ConnectionState != NatsConnectionState.Open)
            Fail(Refused($"Server error: {change.Error}"));
        ServerFailed?.Invoke(this, change);
        return default;
    }

    private ValueTask OnDisconnectedAsync(object? sender, NatsEventArgs change)
    {
        if (_isDisposed)
            return default;
        _fault = $"The connection to {Target} was lost. {_remedy}";
        var settings = Connection.Opts;
        ConnectionLog.Lost(_logger, Client, Target, $"NATS.Net does not tell why. It gives a silent server up after {settings.PingInterval * (settings.MaxPingOut + 1)} ({nameof(NatsOpts.PingInterval)}, {nameof(NatsOpts.MaxPingOut)}).");
        _reporters.Lose(_fault);
        return default;
    }
}
