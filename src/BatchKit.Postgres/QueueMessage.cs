namespace BatchKit.Postgres;

/// <summary>One message of a queue, and what became of it.</summary>
/// <remarks>Say at most one thing of it; the last one counts. One thread at a time, and only while its batch is being handled.</remarks>
public sealed class QueueMessage
{
    internal QueueMessage(long id, int attempt, int priority, DateTimeOffset enqueuedAt, string? key, MessageHeader? header, ReadOnlyMemory<byte> payload)
    {
        Id = id;
        Attempt = attempt;
        Priority = priority;
        EnqueuedAt = enqueuedAt;
        Key = key;
        Header = header;
        Payload = payload;
    }

    /// <summary>Its number in the schema: rises in the order of insertion, stays the same however often it is handled.</summary>
    public long Id { get; }

    /// <summary>Which attempt this is, from 1.</summary>
    public int Attempt { get; }

    /// <summary>Its priority: higher ones are claimed first; 0 by default.</summary>
    public int Priority { get; }

    /// <summary>When it was enqueued, by the server's clock.</summary>
    public DateTimeOffset EnqueuedAt { get; }

    /// <summary>The key that it was enqueued with, in an ordered queue; null otherwise.</summary>
    public string? Key { get; }

    /// <summary>What it says about itself; null for a plain message.</summary>
    public MessageHeader? Header { get; }

    /// <summary>Its bytes.</summary>
    public ReadOnlyMemory<byte> Payload { get; }

    /// <summary>What was said of it; null as long as nothing was.</summary>
    internal MessageOutcome? Outcome { get; private set; }

    /// <summary>Why, for the table; null when it is done.</summary>
    internal string? Reason { get; private set; }

    /// <summary>How long to wait before it is handled again; null leaves that to the receiver.</summary>
    internal TimeSpan? RetryDelay { get; private set; }

    /// <summary>It is done, and is deleted.</summary>
    public void Complete() => Say(MessageOutcome.Done, reason: null, delay: null);

    /// <summary>It has failed, and is to be handled again; in the dead table instead when it was its last attempt.</summary>
    /// <param name="reason">Why, for the table.</param>
    /// <param name="delay">When again; null, the default, waits as <see cref="PostgresQueueReceiverOptions.RetryDelay"/> says.</param>
    /// <exception cref="ArgumentOutOfRangeException">The delay is negative.</exception>
    public void Retry(string reason, TimeSpan? delay = null)
    {
        ArgumentNullException.ThrowIfNull(reason);
        if (delay is { } time)
            ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero, nameof(delay));
        Say(MessageOutcome.Retry, reason, delay);
    }

    /// <summary>It can't be handled, ever, and goes to the dead table.</summary>
    /// <param name="reason">Why, for the table.</param>
    public void Bury(string reason)
    {
        ArgumentNullException.ThrowIfNull(reason);
        Say(MessageOutcome.Dead, reason, delay: null);
    }

    /// <summary>It was not handled, and goes back as it was.</summary>
    internal void Release() => Say(MessageOutcome.Released, reason: null, delay: null);

    private void Say(MessageOutcome outcome, string? reason, TimeSpan? delay)
    {
        Outcome = outcome;
        Reason = reason;
        RetryDelay = delay;
    }
}

/// <summary>What became of a message that was claimed.</summary>
internal enum MessageOutcome
{
    /// <summary>Handled: it is deleted.</summary>
    Done = 0,

    /// <summary>Failed: it is handled again, an attempt later.</summary>
    Retry = 1,

    /// <summary>Given up: it goes to the dead table.</summary>
    Dead = 2,

    /// <summary>Not handled: it goes back as it was, at no attempt's cost.</summary>
    Released = 3,
}
