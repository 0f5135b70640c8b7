using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.WebSockets;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Connections;

/// <summary>Checks all connections periodically: it ends those that do not read, are idle, or are not authenticated in time, and sends keep-alives.</summary>
internal sealed class ConnectionSweep : IAsyncDisposable
{
    private static readonly TimeSpan LongestPeriod = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan DefaultAuthenticationTimeout = TimeSpan.FromMinutes(1);

    // With a period of half a second a callback comes within a second.
    private static readonly TimeSpan LongestPeriodWithCallback = TimeSpan.FromSeconds(0.5);
    private static readonly TimeSpan SlowAfter = TimeSpan.FromSeconds(0.25);

    private readonly RunningClock _clock;
    private readonly ConnectionTable _connections;
    private readonly BroadcastOptions _options;
    private readonly ILogger _logger;
    private readonly LogThrottle _throttle;
    private readonly ObserverFaults _faults;
    private readonly ITimer _timer;
    private readonly int _slowBytes;
    private int _slowClients;

    /// <summary>Starts the sweep, which is the tick of the clock too.</summary>
    public ConnectionSweep(ConnectionTable connections, BroadcastOptions options, RunningClock clock, LogThrottle throttle, ILogger logger, ObserverFaults faults)
    {
        _clock = clock;
        _connections = connections;
        _options = options;
        _logger = logger;
        _throttle = throttle;
        _faults = faults;
        _slowBytes = SendQueueLimits.From(options).MessageCapacityBytes / 2;
        var period = PeriodFor(options);
        _timer = clock.Inner.CreateTimer(static state => ((ConnectionSweep)state!).Run(), this, period, period);
    }

    /// <summary>How many clients were slow when it last looked.</summary>
    public int SlowClients => Volatile.Read(ref _slowClients);

    public async ValueTask DisposeAsync()
    {
        // The application's callback may hang.
        await _timer.DisposeAsync().AsTask().WaitAsync(_options.CloseTimeout, _clock.Inner).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _clock.Release();
    }

    /// <summary>The time between two sweeps: short enough that a limit is kept within a quarter of it.</summary>
    public static TimeSpan PeriodFor(BroadcastOptions options)
    {
        TimeSpan?[] limits =
        [
            options.SlowConsumerTimeout, options.IdleTimeout, options.AuthenticationTimeout, options.KeepAliveInterval, options.HandshakeTimeout, options.CloseTimeout, options.DrainTimeout,
        ];
        var quarter = limits.Min()!.Value / 4;
        var longest = options.SlowClientChanged is null ? LongestPeriod : LongestPeriodWithCallback;
        return quarter < longest ? quarter : longest;
    }

    private void Run()
    {
        if (!_clock.Tick())
            return;
        var (swept, slow) = (0, 0);
        foreach (var connection in _connections.All)
        {
            if (connection.IsClosing)
                continue;
            var stalledFor = connection.Output.StalledFor;
            if (stalledFor >= _options.SlowConsumerTimeout)
                connection.Abort(DisconnectReason.SlowConsumer);
            else if (!connection.IsAttached && connection.Activity.RecordAge >= _options.IdleTimeout)
                connection.Close(DisconnectReason.Idle);
            else if (!connection.IsAuthenticated && connection.Activity.Age >= AuthenticationTimeoutOf(connection))
                connection.Close(DisconnectReason.NotAuthenticated);
            else
            {
                slow += Note(connection, stalledFor >= SlowAfter || connection.Output.HeldBytes > _slowBytes) ? 1 : 0;
                KeepAlive(connection);
                continue;
            }

            swept++;
        }

        Volatile.Write(ref _slowClients, slow);
        if (swept > 0)
            Log.ClientsSwept(_logger, _throttle, swept);
    }

    private bool Note(ClientConnection connection, bool isSlow)
    {
        if (connection.IsSlow == isSlow)
            return isSlow;
        connection.IsSlow = isSlow;
        try
        {
            _options.SlowClientChanged?.Invoke(connection);
        }
        catch (Exception exception)
        {
            _faults.Add(exception);
        }

        return isSlow;
    }

    private TimeSpan? AuthenticationTimeoutOf(ClientConnection connection) => _options.AuthenticationTimeout ?? (connection.RequiresAuthentication ? DefaultAuthenticationTimeout : null);

    private void KeepAlive(ClientConnection connection)
    {
        if (!(connection.Activity.Silence >= _options.KeepAliveInterval))
            return;
        connection.Activity.NoteKeepAlive();

        // A client that does not read its output needs no keep-alive: the time limit for slow consumers watches it.
        if (connection.Output.HeldBytes > 0)
            return;
        if (connection.Terminal is { SpeaksTelnet: true })
            connection.SendControl(TelnetCode.KeepAlive);
        else if (connection.Protocol == ClientProtocol.WebSocket)
            connection.SendControl(WebSocketEncoder.Ping);
    }
}
