using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Connections;

/// <summary>Keeps a transport or receiver connected until it is stopped: connects, lets its user use the connection, and reconnects after a pause.</summary>
internal sealed class MqttLink : IAsyncDisposable
{
    public const string Transport = "transport";
    public const string Receiver = "receiver";
    public const string Both = "transport and receiver";
    public const string NodeLease = "node lease";

    // Two receivers with one client id take the session from each other. Each take-over that the broker names doubles the pause up to this limit; the one that holds the session then keeps it, because after
    // a stable connection it is back at once.
    private static readonly TimeSpan MaxTakeOverDelay = TimeSpan.FromMinutes(10);

    private readonly MqttConnector _connector;
    private readonly string _purpose;
    private readonly IConnectionUser _user;
    private readonly RetrySchedule _schedule;

    // Null where a lost session makes no longer pauses.
    private readonly RetrySchedule? _takeOverSchedule;
    private readonly TimeSpan _stableAfter;
    private readonly TimeProvider _timeProvider;
    private readonly GuardedLogger _logger;
    private readonly ConnectionReporter _reporter;
    private readonly CancellationTokenSource _stopping = new();
    private readonly TaskCompletionSource _firstAttempt = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Guards the field below it.
    private readonly Lock _lock = new();
    private Task? _running;

    private volatile string? _fault;
    private volatile bool _isConnected;

    // Used by the loop only.
    private bool _cleanStart;
    private int _failures;

    // The consecutive ends for which the broker named a take-over. Nothing else counts: a rolling restart behind a balancer closes connections without a reason too, and must not make a receiver wait.
    private int _sessionLosses;

    // The consecutive ends without a reason, which are only reported: brokers that name none, as Mosquitto 2.0, end a connection so after a take-over.
    private int _unexplainedEnds;

    // The consecutive connections that ended because the broker broke the protocol.
    private int _protocolBreaks;

    /// <summary>Creates a link without starting it.</summary>
    /// <param name="options">The settings.</param>
    /// <param name="purpose">Its name in the log: transport, receiver, both or node lease. A link for a receiver alone has no will. A link for a transport alone ends its session with its DISCONNECT.</param>
    /// <param name="clientId">The client id.</param>
    /// <param name="sessionExpiry">The session expiry in CONNECT.</param>
    /// <param name="user">Uses the connections.</param>
    /// <param name="timeProvider">The source of time.</param>
    /// <param name="logger">The logger.</param>
    /// <param name="metrics">The instruments of its connection; null for none.</param>
    public MqttLink(
        MqttOptions options, string purpose, string clientId, TimeSpan sessionExpiry, IConnectionUser user, TimeProvider timeProvider, GuardedLogger logger,
        ConnectionMetrics? metrics = null)
    {
        _connector = new MqttConnector(
            options, clientId, sessionExpiry, endsSession: purpose == Transport || options.ClientId is null, purpose == Receiver ? null : options.Will, timeProvider, logger.Faults,
            mayBlock: purpose == Transport);
        _purpose = purpose;
        _user = user;
        _schedule = new RetrySchedule(options.ReconnectDelay, options.MaxReconnectDelay);
        // A transport's session holds nothing for it to miss, and it has messages to send.
        var isReceiving = purpose is Receiver or Both;
        _takeOverSchedule = isReceiving && options.MaxReconnectDelay < MaxTakeOverDelay ? new RetrySchedule(options.ReconnectDelay, MaxTakeOverDelay) : null;
        // Two clients that take a session from each other keep their connections as long as the other's pause. That must not count as stable, or they would
        // keep reconnecting at the highest rate.
        _stableAfter = 2 * options.MaxReconnectDelay;
        _timeProvider = timeProvider;
        _logger = logger;
        _cleanStart = options.CleanStart;
        _reporter = new ConnectionReporter(options.ConnectionChanged, purpose, Target, metrics, "mqtt");
    }

    /// <summary>A human-readable form of the broker's address, without secrets.</summary>
    public string Target => _connector.Target;

    /// <summary>True from the broker's acceptance of a connection to its end.</summary>
    public bool IsConnected => _isConnected;

    /// <summary>What the application's callback has thrown, in a sentence; null when it has thrown nothing.</summary>
    public string? CallbackFault => _reporter.CallbackFault;

    /// <summary>A human-readable reason, without secrets, why there is no connection; null while there is one.</summary>
    public string? Fault => _fault;

    /// <summary>Starts to connect, once. The task completes after the first attempt, whether it succeeded or failed.</summary>
    public Task StartAsync()
    {
        lock (_lock)
            _running ??= CallerContext.RunWithout(RunAsync);
        return _firstAttempt.Task;
    }

    /// <summary>Disconnects and does not reconnect. Completes when the user has stopped using the connection.</summary>
    public async ValueTask DisposeAsync()
    {
        Task running;
        lock (_lock)
            running = _running ??= Task.CompletedTask;
        // Not awaited: a callback of the application may hang.
        _ = _logger.Faults.CancelAsync(_stopping);
        await running.ConfigureAwait(false);
        _reporter.Close();
        _firstAttempt.TrySetResult();
    }

    private async Task RunAsync()
    {
        while (!_stopping.IsCancellationRequested)
        {
            try
            {
                await TryConnectAndServeAsync(_stopping.Token).ConfigureAwait(false);
                _failures++;
                await Task.Delay(NextPause(), _timeProvider, _stopping.Token).ConfigureAwait(false);
            }
            catch (Exception) when (_stopping.IsCancellationRequested)
            {
                // It was stopped.
            }
        }
    }

    private TimeSpan NextPause()
    {
        var usual = _schedule.DelayAfter(_failures, Random.Shared);
        var yielding = _sessionLosses > 0 ? _takeOverSchedule?.DelayAfter(_sessionLosses, Random.Shared) : null;
        return yielding > usual ? yielding.Value : usual;
    }

    private async Task TryConnectAndServeAsync(CancellationToken cancellationToken)
    {
        try
        {
            await ConnectAndServeAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (!cancellationToken.IsCancellationRequested)
        {
            var failure = new MqttConnectException($"There is no connection to {Target}: connecting failed unexpectedly with {exception.GetType().Name}.", reasonCode: null, exception);
            _fault = FailureText.MessageOf(failure);
            Log.ServingFailed(_logger, exception, _purpose);
            _reporter.Lose(FailureText.MessageOf(failure));
            _user.ConnectFailed(failure);
        }
    }

    private async Task ConnectAndServeAsync(CancellationToken cancellationToken)
    {
        if (await TryConnectAsync(cancellationToken).ConfigureAwait(false) is not { } connection)
            return;
        var start = _timeProvider.GetTimestamp();
        await using (connection.ConfigureAwait(false))
        {
            var reason = await ServeAsync(connection, cancellationToken).ConfigureAwait(false);
            _isConnected = false;
            if (cancellationToken.IsCancellationRequested)
                return;
            _reporter.Lose(reason);
            _fault = $"The connection to {Target} was lost. {reason}";
            if (_timeProvider.GetElapsedTime(start) >= _stableAfter)
                (_failures, _sessionLosses, _unexplainedEnds) = (0, 0, 0);
            LogEnd(connection.End, reason);
        }
    }

    private void LogEnd(ConnectionEnd? end, string reason)
    {
        var isNotice = end is { Notice: MqttReasonCode.SessionTakenOver };
        _sessionLosses = isNotice ? _sessionLosses + 1 : 0;
        _unexplainedEnds = end is { IsUnexplained: true } ? _unexplainedEnds + 1 : 0;
        _protocolBreaks = end is { DisconnectCode: >= MqttReasonCode.UnspecifiedError } ? _protocolBreaks + 1 : 0;
        if (_protocolBreaks > 1)
            Log.ProtocolBrokenAgain(_logger, _purpose, Target, _protocolBreaks, reason);
        else if (isNotice)
            Log.SessionTakenOver(_logger, _purpose, Target);
        else if (_unexplainedEnds > 1)
            Log.EndedAgain(_logger, _purpose, Target, _unexplainedEnds);
        else
            ConnectionLog.Lost(_logger, _purpose, Target, reason);
    }

    private async Task<MqttConnection?> TryConnectAsync(CancellationToken cancellationToken)
    {
        try
        {
            await _user.EnsureMayConnectAsync(cancellationToken).ConfigureAwait(false);
            var connection = await _connector.ConnectAsync(_cleanStart, cancellationToken).ConfigureAwait(false);
            _cleanStart = false;
            _fault = null;
            _isConnected = true;
            _user.Connect(connection);
            ConnectionLog.Connected(_logger, _purpose, Target);
            _reporter.Open();
            return connection;
        }
        catch (MqttConnectException exception)
        {
            // Set before the log message, so that the health check already reports the fault when the message appears.
            var fault = FailureText.MessageOf(exception);
            var isNew = _fault != fault;
            _fault = fault;
            if (isNew)
                ConnectionLog.Failed(_logger, _purpose, fault);
            // A failed attempt means that the broker is unavailable, not that another client takes the session.
            (_sessionLosses, _unexplainedEnds) = (0, 0);
            _reporter.Lose(fault);
            _user.ConnectFailed(exception);
            return null;
        }
        finally
        {
            _firstAttempt.TrySetResult();
        }
    }

    private async Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken)
    {
        try
        {
            return await _user.ServeAsync(connection, cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception) when (exception is not OperationCanceledException || !cancellationToken.IsCancellationRequested)
        {
            Log.ServingFailed(_logger, exception, _purpose);
            return "Using it failed.";
        }
    }
}

/// <summary>Uses the connections of a link, one at a time.</summary>
internal interface IConnectionUser
{
    /// <summary>Called when the broker has accepted a connection, before anyone is told of it, so that who is told can send. <see cref="ServeAsync"/> follows.</summary>
    void Connect(MqttConnection connection)
    {
    }

    /// <summary>Uses a connection until it ends.</summary>
    /// <returns>A human-readable reason for its end.</returns>
    Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken);

    /// <summary>Called before each attempt to connect.</summary>
    /// <exception cref="MqttConnectException">It may not connect now.</exception>
    Task EnsureMayConnectAsync(CancellationToken cancellationToken) => Task.CompletedTask;

    /// <summary>Called when an attempt to connect has failed; another follows after a pause.</summary>
    void ConnectFailed(MqttConnectException failure);
}
