using System.Globalization;
using System.Text.Unicode;

namespace BatchKit.Sessions;

/// <summary>What a session hands to its connection in one scope. It belongs to the thread that forwards.</summary>
internal sealed class ForwardedWork
{
    public const int MaxMessages = 4096;

    private const int MaxKeptMessages = 64;
    private const int MaxNumberBytes = 20;

    private readonly List<SessionEntry> _messages = [];
    private OutputHandle _connection;
    private SessionGreeting _greeting;
    private long _now;

    /// <summary>The version of the session's connection that it was taken for.</summary>
    public int Version { get; private set; }

    /// <summary>The number that the client expects.</summary>
    public long From { get; private set; }

    /// <summary>The first number that the history still has.</summary>
    public long First { get; private set; }

    /// <summary>The number behind what there is to write.</summary>
    public long End { get; set; }

    public int Count => _messages.Count;

    /// <summary>True when the session closes its connection behind these messages.</summary>
    public bool Closes { get; set; }

    /// <summary>False when the client has nothing to get before it acknowledges more.</summary>
    public bool HasOutput => _greeting != SessionGreeting.None || End > From || Closes;

    public bool HasGreeted { get; private set; }

    /// <summary>The number behind what was written.</summary>
    public long Reached { get; private set; }

    /// <summary>Messages that never fit with their number.</summary>
    public int Refused { get; private set; }

    /// <summary>False when the connection took only a part.</summary>
    public bool IsComplete { get; private set; }

    public void Begin(OutputHandle connection, int version, SessionGreeting greeting, long from, long first, long now)
    {
        (_connection, Version, _greeting, From, First, End, _now) = (connection, version, greeting, from, first, first, now);
        (HasGreeted, Reached, Refused, IsComplete, Closes) = (false, from, 0, false, false);
        _messages.Clear();
    }

    public void Add(SessionEntry message) => _messages.Add(message);

    /// <summary>Writes all of it in one scope, as far as the buffer has capacity.</summary>
    public void Write(IOutputBuffer output, Session session, TimeProvider timeProvider)
    {
        using (output.BeginBufferingScope(_connection))
            IsComplete = TryGreet(output, session) && TryTellGap(output, session) && TryWriteMessages(output, session, timeProvider) && (!Closes || TryClose(output, session));
    }

    /// <summary>Counts what was written and is not acknowledged already.</summary>
    public void CountWritten(ForwardWindow window, long acknowledged)
    {
        foreach (var (number, message) in _messages)
        {
            if (number > acknowledged && number < Reached)
                window.Add(number, message!.Bytes);
        }
    }

    /// <summary>Lets the messages go.</summary>
    public void Release()
    {
        _messages.Clear();
        if (_messages.Capacity > MaxKeptMessages)
            _messages.Capacity = 0;
    }

    private bool TryGreet(IOutputBuffer output, Session session)
    {
        HasGreeted = _greeting == SessionGreeting.None
            || (_greeting == SessionGreeting.Opened ? output.TryForward(_connection, $"session {session.Token}\r\n") : output.TryForward(_connection, $"resumed {From}\r\n"));
        return HasGreeted;
    }

    private bool TryTellGap(IOutputBuffer output, Session session)
    {
        if (First > From && !TryTellLost(From, First - 1, output, session))
            return false;
        Reached = First;
        return true;
    }

    private bool TryWriteMessages(IOutputBuffer output, Session session, TimeProvider timeProvider)
    {
        for (var index = 0; index < _messages.Count; index++)
        {
            var (number, message) = _messages[index];
            if (session.Acknowledges && message!.IsForTelnet)
                continue;
            if (!TrySkipTo(number, output, session))
                return false;
            var isWritten = message == SessionMessage.Expired
                ? TryTellExpired(ref index, output, session)
                : TryWrite(output, session, number, message!, message!.HeaderAt(_now, timeProvider));
            if (!isWritten)
                return false;
        }

        return TrySkipTo(End, output, session);
    }

    // Latest values that newer ones have replaced, and what is not for this client.
    private bool TrySkipTo(long number, IOutputBuffer output, Session session)
    {
        if (number > Reached && session.Acknowledges && !TryWriteRange(output, "skip", Reached, number - 1))
            return false;
        Reached = number;
        return true;
    }

    // Those that follow each other are one gap.
    private bool TryTellExpired(ref int index, IOutputBuffer output, Session session)
    {
        var last = Reached;
        while (index + 1 < _messages.Count && _messages[index + 1] == new SessionEntry(last + 1, SessionMessage.Expired))
            (index, last) = (index + 1, last + 1);
        if (!TryTellLost(Reached, last, output, session))
            return false;
        Reached = last + 1;
        return true;
    }

    private bool TryTellLost(long from, long to, IOutputBuffer output, Session session) => !session.Acknowledges || TryWriteRange(output, "gap", from, to);

    private bool TryWrite(IOutputBuffer output, Session session, long number, SessionMessage message, MessageHeader? header)
    {
        bool isWritten;
        try
        {
            isWritten = !session.Acknowledges
                ? output.TryForward(_connection, message.Payload, header)
                : output.TryForward(_connection, MaxNumberBytes + message.Payload.Length, (number, message.Payload), static (bytes, state) => Encode(bytes, state.number, state.Payload), header);
        }
        catch (OutputOverflowException)
        {
            // Its number makes it larger than the route's limit.
            isWritten = TryTellLost(number, number, output, session);
            Refused += isWritten ? 1 : 0;
        }

        if (isWritten)
            Reached = number + 1;
        return isWritten;
    }

    private bool TryClose(IOutputBuffer output, Session session)
    {
        if (session.Acknowledges && !output.TryForward(_connection, "ended\r\n"u8))
            return false;
        return output.TryForward(_connection, ConnectionNotice.Closed.Payload, ConnectionNotice.Closed.Header);
    }

    private bool TryWriteRange(IOutputBuffer output, string word, long from, long to) => output.TryForward(_connection, $"{word} {from} {to}\r\n");

    private static int Encode(Span<byte> bytes, long number, byte[] payload)
    {
        Utf8.TryWrite(bytes, CultureInfo.InvariantCulture, $"{number} ", out var written);
        payload.CopyTo(bytes[written..]);
        return written + payload.Length;
    }
}

/// <summary>What a client is told first on a connection.</summary>
internal enum SessionGreeting
{
    None = 0,
    Opened = 1,
    Resumed = 2,
}
