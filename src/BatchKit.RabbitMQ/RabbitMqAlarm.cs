using System.Runtime.CompilerServices;
using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Knows whether the broker has told a connection of its memory or disk alarm. Thread-safe.</summary>
/// <remarks>From then on the broker reads nothing from the connection until the alarm ends: neither acknowledgements nor requests. A channel that is asked for meanwhile is opened later, when no one waits for it.</remarks>
internal sealed class RabbitMqAlarm
{
    // The users of one connection share what it was told.
    private static readonly ConditionalWeakTable<IConnection, RabbitMqAlarm> All = [];

    private volatile string? _reason;

    private RabbitMqAlarm(IConnection connection)
    {
        connection.ConnectionBlockedAsync += (_, blocked) => SetAsync(blocked.Reason);
        connection.ConnectionUnblockedAsync += (_, _) => SetAsync(null);
        // Where the connection recovers itself, the broker tells it again.
        connection.ConnectionShutdownAsync += (_, _) => SetAsync(null);
    }

    /// <summary>The broker's reason; null when it accepts messages.</summary>
    public string? Reason => _reason;

    /// <summary>The alarm of a connection. Ask for it before the connection publishes.</summary>
    public static RabbitMqAlarm Of(IConnection connection) => All.GetValue(connection, static connection => new RabbitMqAlarm(connection));

    /// <exception cref="RabbitMqAlarmException">There is an alarm.</exception>
    public void ThrowIfRaised()
    {
        if (_reason is { } reason)
            throw new RabbitMqAlarmException(reason);
    }

    private Task SetAsync(string? reason)
    {
        _reason = reason;
        return Task.CompletedTask;
    }
}

/// <summary>The broker reads nothing from the connection, because of its memory or disk alarm.</summary>
internal sealed class RabbitMqAlarmException(string reason) : IOException($"RabbitMQ accepts no messages now: {reason}. It reads nothing from a connection that has sent some, acknowledgements included, until its alarm ends.");
