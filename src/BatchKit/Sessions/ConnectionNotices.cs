using System.Diagnostics.CodeAnalysis;

namespace BatchKit.Sessions;

/// <summary>What connections are told besides their sessions' output: that a line was refused, or that they are closed. What finds no capacity waits for the sweep. Thread-safe.</summary>
internal sealed class ConnectionNotices(SessionTransport sessions, int maxWaiting)
{
    // Guards what waits: one notice for each connection.
    private readonly Lock _lock = new();
    private readonly Dictionary<OutputHandle, ConnectionNotice> _waiting = [];

    /// <summary>Tells a connection now or, when the buffer has no capacity, later.</summary>
    /// <returns>False when it waits.</returns>
    public bool Tell(OutputHandle connection, ConnectionNotice notice)
    {
        if (TryTell(connection, notice))
            return true;
        lock (_lock)
        {
            // A connection that is closed needs nothing else.
            var isOpen = !_waiting.TryGetValue(connection, out var waiting) || waiting != ConnectionNotice.Closed;
            if (isOpen && (waiting is not null || _waiting.Count < maxWaiting))
                _waiting[connection] = notice;
        }

        return false;
    }

    /// <summary>Tells what waits.</summary>
    /// <returns>False when some of it waits on.</returns>
    public bool TellWaiting()
    {
        OutputHandle[] connections;
        lock (_lock)
            connections = [.. _waiting.Keys];
        var isComplete = true;
        foreach (var connection in connections)
            isComplete &= !TryTake(connection, out var notice) || Tell(connection, notice);
        return isComplete;
    }

    /// <summary>Takes out what waits for a connection.</summary>
    public bool TryTake(OutputHandle connection, [NotNullWhen(true)] out ConnectionNotice? notice)
    {
        lock (_lock)
            return _waiting.Remove(connection, out notice);
    }

    private bool TryTell(OutputHandle connection, ConnectionNotice notice)
    {
        try
        {
            return sessions.Output.TryForward(connection, notice.Payload, notice.Header);
        }
        catch (Exception failure)
        {
            // A router of the application's.
            sessions.CountFailure(failure);
            return false;
        }
    }
}

/// <summary>What a connection is told.</summary>
internal sealed class ConnectionNotice
{
    private ConnectionNotice(byte[] payload, MessageHeader? header = null) => (Payload, Header) = (payload, header);

    /// <summary>There are too many sessions.</summary>
    public static ConnectionNotice Full { get; } = new("full\r\n"u8.ToArray());

    /// <summary>There is no session to take up.</summary>
    public static ConnectionNotice Expired { get; } = new("expired\r\n"u8.ToArray());

    /// <summary>The connection is closed.</summary>
    public static ConnectionNotice Closed { get; } = new(ControlMessage.Close.ToPayload(), MessageHeader.Control);

    public byte[] Payload { get; }

    public MessageHeader? Header { get; }
}
