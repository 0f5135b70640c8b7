using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;

namespace BatchKit.RabbitMQ;

/// <summary>Logs the end of one connection, once it has opened, its recovery, and its alarms.</summary>
internal sealed class ConnectionWatch(IConnection connection, RabbitMqConnector connector, ILogger logger, Action recovered)
{
    private volatile bool _hasOpened;
    private ShutdownEventArgs? _logged;

    public void Start()
    {
        connection.ConnectionBlockedAsync += OnBlockedAsync;
        connection.ConnectionUnblockedAsync += OnUnblockedAsync;
        connection.ConnectionShutdownAsync += OnShutdownAsync;
        connection.RecoverySucceededAsync += OnRecoveredAsync;
    }

    /// <summary>Its channel works. The client has a connection before the broker has let it in: the end of one that was refused is a failed attempt, which is logged once.</summary>
    public void HasOpened()
    {
        _hasOpened = true;
        if (connection.CloseReason is { } reason)
            LogLost(reason);
    }

    /// <summary>Removes its event handlers.</summary>
    public void Leave()
    {
        connection.ConnectionBlockedAsync -= OnBlockedAsync;
        connection.ConnectionUnblockedAsync -= OnUnblockedAsync;
        connection.ConnectionShutdownAsync -= OnShutdownAsync;
        connection.RecoverySucceededAsync -= OnRecoveredAsync;
    }

    private Task OnBlockedAsync(object sender, ConnectionBlockedEventArgs blocked)
    {
        Log.Blocked(logger, connector.Target, blocked.Reason);
        return Task.CompletedTask;
    }

    private Task OnUnblockedAsync(object sender, AsyncEventArgs unblocked)
    {
        Log.Unblocked(logger, connector.Target);
        return Task.CompletedTask;
    }

    private Task OnShutdownAsync(object sender, ShutdownEventArgs reason)
    {
        if (_hasOpened)
            LogLost(reason);
        return Task.CompletedTask;
    }

    private Task OnRecoveredAsync(object sender, AsyncEventArgs recovery)
    {
        ConnectionLog.Connected(logger, connector.Purpose, connector.Target);
        recovered();
        return Task.CompletedTask;
    }

    // A connection that ended just before its channel was ready has had its event, or has it meanwhile.
    private void LogLost(ShutdownEventArgs reason)
    {
        if (reason.Initiator != ShutdownInitiator.Application && Interlocked.Exchange(ref _logged, reason) != reason)
            ConnectionLog.Lost(logger, connector.Purpose, connector.Target, RabbitMqClosing.Describe(reason));
    }
}
