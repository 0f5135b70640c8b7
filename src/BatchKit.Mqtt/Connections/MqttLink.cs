using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Connections;

/// <summary>Keeps a transport or receiver connected: connects, lets its user serve, and connects again after a pause, until it is stopped.</summary>
internal sealed class MqttLink : IAsyncDisposable
{
    public const string Transport = "transport";
    public const string Receiver = "receiver";

    private readonly MqttConnector _connector;
    private readonly string _purpose;
    private readonly IConnectionUser _user;
    private readonly RetrySchedule _schedule;
    private readonly TimeSpan _settledAfter;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly CancellationTokenSource _stopping = new();
    private readonly TaskCompletionSource _tried = new(TaskCreationOptions.RunContinuationsAsynchronously);

    // Guards the field below it.
    private readonly Lock _lock = new();
    private Task? _running;

    private volatile string? _fault;

    // The loop's.
    private bool _cleanStart;
    private int _failures;
    private int _unexplainedEnds;

    /// <summary>Makes a link that is not started.</summary>
    /// <param name="options">Its settings.</param>
    /// <param name="purpose">What the log calls it: transport or receiver. A transport has the will, and ends its session with its goodbye.</param>
    /// <param name="clientId">The client id.</param>
    /// <param name="sessionExpiry">In CONNECT.</param>
    /// <param name="user">Who uses the connections.</param>
    /// <param name="timeProvider">The time.</param>
    /// <param name="logger">Where it logs.</param>
    public MqttLink(
        MqttOptions options, string purpose, string clientId, TimeSpan sessionExpiry, IConnectionUser user, TimeProvider timeProvider, ILogger logger)
    {
        var isTransport = purpose == Transport;
        _connector = new MqttConnector(options, clientId, sessionExpiry, endsSession: isTransport || options.ClientId is null, isTransport ? options.Will : null, timeProvider);
        _purpose = purpose;
        _user = user;
        _schedule = new RetrySchedule(options.ReconnectDelay, options.MaxReconnectDelay);
        // Two that take a session from each other each live as long as the other's pause: that must not count as having lasted, or they would do so at the highest rate for ever.
        _settledAfter = 2 * options.MaxReconnectDelay;
        _timeProvider = timeProvider;
        _logger = logger;
        _cleanStart = options.CleanStart;
    }

    /// <summary>The broker for a person, without secrets.</summary>
    public string Target => _connector.Target;

    /// <summary>Why there is no connection, for a person and without secrets; null while there is one.</summary>
    public string? Fault => _fault;

    /// <summary>Starts to connect, if that has not been done. The task completes after the first attempt, whatever came of it.</summary>
    public Task StartAsync()
    {
        lock (_lock)
            _running ??= RunAsync();
        return _tried.Task;
    }

    /// <summary>Ends the connection in good order and connects no more; completes when its user serves no more.</summary>
    public async ValueTask DisposeAsync()
    {
        Task running;
        lock (_lock)
            running = _running ??= Task.CompletedTask;
        await _stopping.CancelAsync().ConfigureAwait(false);
        await running.ConfigureAwait(false);
        _tried.TrySetResult();
    }

    private async Task RunAsync()
    {
        // Its caller holds a lock.
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        while (!_stopping.IsCancellationRequested)
        {
            try
            {
                await ConnectAndServeAsync(_stopping.Token).ConfigureAwait(false);
                _failures++;
                await Task.Delay(_schedule.DelayAfter(_failures, Random.Shared), _timeProvider, _stopping.Token).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (_stopping.IsCancellationRequested)
            {
                // It was stopped.
            }
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
            if (cancellationToken.IsCancellationRequested)
                return;
            _fault = $"The connection to {Target} was lost. {reason}";
            if (_timeProvider.GetElapsedTime(start) >= _settledAfter)
                (_failures, _unexplainedEnds) = (0, 0);
            LogEnd(connection.End, reason);
        }
    }

    private void LogEnd(ConnectionEnd? end, string reason)
    {
        _unexplainedEnds = end is { IsUnexplained: true } ? _unexplainedEnds + 1 : 0;
        if (end is { Notice: MqttReasonCode.SessionTakenOver })
            Log.SessionTakenOver(_logger, _purpose, Target);
        else if (_unexplainedEnds > 1)
            Log.EndedAgain(_logger, _purpose, Target, _unexplainedEnds);
        else
            Log.ConnectionLost(_logger, _purpose, Target, reason);
    }

    private async Task<MqttConnection?> TryConnectAsync(CancellationToken cancellationToken)
    {
        try
        {
            var connection = await _connector.ConnectAsync(_cleanStart, cancellationToken).ConfigureAwait(false);
            _cleanStart = false;
            _fault = null;
            Log.Connected(_logger, _purpose, Target);
            return connection;
        }
        catch (MqttConnectException exception)
        {
            if (_fault != exception.Message)
                Log.ConnectFailed(_logger, _purpose, exception.Message);
            _fault = exception.Message;
            // It is the broker that goes up and down, then, and not somebody else who takes the session.
            _unexplainedEnds = 0;
            _user.ConnectFailed(exception);
            return null;
        }
        finally
        {
            _tried.TrySetResult();
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
            return "Serving it failed.";
        }
    }
}

/// <summary>What a link serves with connections, one after the other.</summary>
internal interface IConnectionUser
{
    /// <summary>Uses a connection until it ends.</summary>
    /// <returns>Why it ended, for a person.</returns>
    Task<string> ServeAsync(MqttConnection connection, CancellationToken cancellationToken);

    /// <summary>An attempt to connect failed; another follows after a pause.</summary>
    void ConnectFailed(MqttConnectException failure);
}
