using Microsoft.AspNetCore.Connections.Features;

namespace BatchKit.Broadcast.WebSockets;

/// <summary>
/// Ends a connection whose client does not read the last bytes from the server's pipe. The request has ended by then, and the server itself would wait for ever: its minimum rate does not hold
/// for upgraded connections.
/// </summary>
internal sealed class LingeringEnd
{
    private readonly IConnectionLifetimeFeature _connection;
    private readonly ITimer _limit;

    private LingeringEnd(IConnectionLifetimeFeature connection, TimeSpan limit, TimeProvider timeProvider)
    {
        _connection = connection;
        _limit = timeProvider.CreateTimer(static state => ((LingeringEnd)state!)._connection.Abort(), this, limit, Timeout.InfiniteTimeSpan);
    }

    /// <summary>Gives the client so long; the connection's end forgets it.</summary>
    public static void Start(IConnectionLifetimeFeature connection, TimeSpan limit, TimeProvider timeProvider)
    {
        var end = new LingeringEnd(connection, limit, timeProvider);
        connection.ConnectionClosed.UnsafeRegister(static state => ((LingeringEnd)state!)._limit.Dispose(), end);
    }
}
