using System.Diagnostics.CodeAnalysis;

namespace BatchKit.Sessions;

/// <summary>What connections are told besides their sessions' output: that a line was refused, or that they are closed. What finds no capacity waits for the sweep. Thread-safe.</summary>
internal sealed class ConnectionNotices(SessionTransport sessions, SessionSweep sweep, int maxWaiting)
{
    // Guards what waits: one notice for each connection.
    private readonly Lock _lock = new();
    private readonly Dictionary<OutputHandle, ConnectionNotice> _waiting = [];

    /// <summary>The connections that something waits for.</summary>
    public OutputHandle[] Waiting
    {
        get
        {
            lock (_lock)
                return [.. _waiting.Keys];
        }
    }

    /// <summary>Tells a connection now or, when the buffer has no capacity, later.</summary>
    public void Tell(OutputHandle connection, ConnectionNotice notice)
    {
        if (!TryTell(connection, notice))
            TellSoon(connection, notice);
    }

    /// <summary>Tells a connection what waits for it.</summary>
    public void TellAgain(OutputHandle connection)
    {
        if (TryTake(connection, out var notice))
            Tell(connection, notice);
    }

    /// <summary>Lets the sweep tell a connection.</summary>
    public void TellSoon(OutputHandle connection, ConnectionNotice notice)
    {
        lock (_lock)
        {
            // A connection that is closed needs nothing else.
            var isOpen = !_waiting.TryGetValue(connection, out var waiting) || waiting != ConnectionNotice.Closed;
            if (isOpen && (waiting is not null || _waiting.Count < maxWaiting))
                _waiting[connection] = notice;
        }

        sweep.ForwardsSoon();
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

    /// <summary>The connection has no session.</summary>
    public static ConnectionNotice Unknown { get; } = new("unknown\r\n"u8.ToArray());

    /// <summary>The connection is closed.</summary>
    public static ConnectionNotice Closed { get; } = new(ControlMessage.Close.ToPayload(), MessageHeader.Control);

    public byte[] Payload { get; }

    public MessageHeader? Header { get; }
}
