using System.Globalization;
using System.Text.Unicode;

namespace BatchKit.Sessions;

/// <summary>What a session hands to its connection in one scope. It belongs to the thread that forwards.</summary>
internal sealed class ForwardedWork
{
    public const int MaxMessages = 4096;

    private const int MaxKeptMessages = 64;
    private const int MaxNumberBytes = 20;

    private readonly List<SessionMessage?> _messages = [];
    private OutputHandle _connection;
    private SessionGreeting _greeting;

    /// <summary>The version of the session's connection that it was taken for.</summary>
    public int Version { get; private set; }

    /// <summary>The number that the client expects.</summary>
    public long From { get; private set; }

    /// <summary>The first number that the history still has.</summary>
    public long First { get; private set; }

    public int Count => _messages.Count;

    /// <summary>True when the session closes its connection behind these messages.</summary>
    public bool Closes { get; set; }

    public bool HasGreeted { get; private set; }

    /// <summary>The number behind what was written.</summary>
    public long Reached { get; private set; }

    /// <summary>Messages that never fit with their number.</summary>
    public int Refused { get; private set; }

    /// <summary>False when the connection took only a part.</summary>
    public bool IsComplete { get; private set; }

    public void Begin(OutputHandle connection, int version, SessionGreeting greeting, long from, long first)
    {
        (_connection, Version, _greeting, From, First) = (connection, version, greeting, from, first);
        (HasGreeted, Reached, Refused, IsComplete, Closes) = (false, from, 0, false, false);
        _messages.Clear();
    }

    public void Add(SessionMessage? message) => _messages.Add(message);

    /// <summary>Writes all of it in one scope, as far as the buffer has capacity.</summary>
    public void Write(IOutputBuffer output, Session session)
    {
        using (output.BeginBufferingScope(_connection))
            IsComplete = TryGreet(output, session) && TryTellGap(output, session) && TryWriteMessages(output, session) && (!Closes || TryClose(output, session));
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
            || (_greeting == SessionGreeting.Opened ? output.TryWrite(_connection, $"session {session.Token}\r\n") : output.TryWrite(_connection, $"resumed {From}\r\n"));
        return HasGreeted;
    }

    private bool TryTellGap(IOutputBuffer output, Session session)
    {
        if (First > From && session.Acknowledges && !TryWriteRange(output, "gap", From, First - 1))
            return false;
        Reached = First;
        return true;
    }

    private bool TryWriteMessages(IOutputBuffer output, Session session)
    {
        var number = First;
        foreach (var message in _messages)
        {
            if (message is not null && !(TrySkipTo(number, output, session) && TryWrite(output, session, number, message)))
                return false;
            number++;
        }

        return TrySkipTo(number, output, session);
    }

    // Latest values that newer ones have replaced.
    private bool TrySkipTo(long number, IOutputBuffer output, Session session)
    {
        if (number > Reached && session.Acknowledges && !TryWriteRange(output, "skip", Reached, number - 1))
            return false;
        Reached = number;
        return true;
    }

    private bool TryWrite(IOutputBuffer output, Session session, long number, SessionMessage message)
    {
        bool isWritten;
        try
        {
            isWritten = !session.Acknowledges
                ? output.TryWrite(_connection, message.Payload, message.Header)
                : output.TryWrite(_connection, MaxNumberBytes + message.Payload.Length, (number, message.Payload), static (bytes, state) => Encode(bytes, state.number, state.Payload), message.Header);
        }
        catch (OutputOverflowException)
        {
            // Its number makes it larger than the route's limit.
            Refused++;
            isWritten = !session.Acknowledges || TryWriteRange(output, "gap", number, number);
        }

        if (isWritten)
            Reached = number + 1;
        return isWritten;
    }

    private bool TryClose(IOutputBuffer output, Session session)
    {
        if (session.Acknowledges && !output.TryWrite(_connection, "ended\r\n"))
            return false;
        return output.TryWrite(_connection, ControlMessage.Close.ToPayload(), MessageHeader.Control);
    }

    private bool TryWriteRange(IOutputBuffer output, string word, long from, long to) => output.TryWrite(_connection, $"{word} {from} {to}\r\n");

    private static int Encode(Span<byte> bytes, long number, byte[] payload)
    {
        Utf8.TryWrite(bytes, CultureInfo.InvariantCulture, $"{number} ", out var written);
        payload.CopyTo(bytes[written..]);
        return written + payload.Length;
    }
}
