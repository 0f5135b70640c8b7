namespace BatchKit.Sessions;

/// <summary>A snapshot of the counters of all sessions.</summary>
/// <remarks>While nothing is under way, <c>numbered = acknowledged + superseded + evicted + expired + discarded + waiting</c>; while messages move, the counters may differ by a few. A group's message counts for each member.</remarks>
public sealed record SessionStatistics
{
    /// <summary>Sessions that exist now.</summary>
    public required int Sessions { get; init; }

    /// <summary>Those of them that have no connection.</summary>
    public required int AwaySessions { get; init; }

    /// <summary>Sessions opened so far.</summary>
    public required long OpenedSessions { get; init; }

    /// <summary>How often a session was taken up again.</summary>
    public required long ResumedSessions { get; init; }

    /// <summary>Sessions that ended because their client did not come back within <see cref="SessionOptions.AwayTimeout"/>.</summary>
    public required long ExpiredSessions { get; init; }

    /// <summary>Attempts to open, to resume or to acknowledge that were refused: an unknown token, a number that was never sent, or too many sessions.</summary>
    public required long RefusedLines { get; init; }

    /// <summary>Messages that sessions got.</summary>
    public required long NumberedMessages { get; init; }

    /// <summary>Messages that clients acknowledged, or, where the client does not acknowledge, that were handed to its connection.</summary>
    public required long AcknowledgedMessages { get; init; }

    /// <summary>Latest values that a newer one replaced in a history.</summary>
    public required long SupersededMessages { get; init; }

    /// <summary>Messages that left a history before they were acknowledged, because of a limit. Their client may have them.</summary>
    public required long EvictedMessages { get; init; }

    /// <summary>Messages that had waited for longer than their <see cref="MessageHeader.TimeToLive"/> when they were to be forwarded.</summary>
    public required long ExpiredMessages { get; init; }

    /// <summary>Messages that were in the history of a session that ended, or arrived with its close, behind it.</summary>
    public required long DiscardedMessages { get; init; }

    /// <summary>Messages in the histories now.</summary>
    public required long WaitingMessages { get; init; }

    /// <summary>Bytes of the histories now; at most <see cref="SessionOptions.MaxTotalBytes"/> and what one send adds.</summary>
    public required long WaitingBytes { get; init; }

    /// <summary>Messages that are known not to have reached their client: those of a gap that it was told, and those of <see cref="ExpiredMessages"/> and <see cref="DiscardedMessages"/>.</summary>
    public required long LostMessages { get; init; }

    /// <summary>Attempts to hand output to a connection that failed unexpectedly. It stays in the history and is handed over later.</summary>
    public required long FailedForwards { get; init; }
}

/// <summary>The counters of all sessions. Thread-safe.</summary>
internal sealed class SessionCounters
{
    public long Opened;
    public long Resumed;
    public long Expired;
    public long RefusedLines;
    public long Numbered;
    public long Acknowledged;
    public long Superseded;
    public long Evicted;
    public long ExpiredMessages;
    public long Discarded;
    public long Lost;
    public long FailedForwards;

    // Memory of all histories.
    public long Bytes;

    public long Waiting => Read(ref Numbered) - Read(ref Acknowledged) - Read(ref Superseded) - Read(ref Evicted) - Read(ref ExpiredMessages) - Read(ref Discarded);

    public SessionStatistics Read(int sessions, int awaySessions) => new()
    {
        Sessions = sessions,
        AwaySessions = awaySessions,
        OpenedSessions = Read(ref Opened),
        ResumedSessions = Read(ref Resumed),
        ExpiredSessions = Read(ref Expired),
        RefusedLines = Read(ref RefusedLines),
        NumberedMessages = Read(ref Numbered),
        AcknowledgedMessages = Read(ref Acknowledged),
        SupersededMessages = Read(ref Superseded),
        EvictedMessages = Read(ref Evicted),
        ExpiredMessages = Read(ref ExpiredMessages),
        DiscardedMessages = Read(ref Discarded),
        WaitingMessages = Waiting,
        WaitingBytes = Read(ref Bytes),
        LostMessages = Read(ref Lost),
        FailedForwards = Read(ref FailedForwards),
    };

    /// <summary>Counts messages that a session got when it kept none any more.</summary>
    public void CountUnkept(long messages)
    {
        Add(ref Numbered, messages);
        Add(ref Discarded, messages);
    }

    public static void Add(ref long counter, long amount) => Interlocked.Add(ref counter, amount);

    public static long Read(ref long counter) => Interlocked.Read(ref counter);
}
