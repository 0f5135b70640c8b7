using System.Text;
using BatchKit.Transports;

namespace BatchKit.Postgres.Receiving;

/// <summary>Turns what a handler said of a message into what the tables do with it: the limit of attempts, the pauses, and texts that PostgreSQL stores. Any thread.</summary>
internal sealed class OutcomePolicy(PostgresQueueReceiverOptions options, Random? random = null)
{
    // A time past the end of PostgreSQL's calendar would fail the settlement of all that is settled with it, for ever.
    private static readonly TimeSpan MaxDelay = TimeSpan.FromDays(3650);

    private readonly RetrySchedule _schedule = new(options.RetryDelay, options.MaxRetryDelay);
    private readonly Random _random = random ?? Random.Shared;

    // A queue without order has no key to block.
    private readonly bool _blocks = options.Shards > 0 && options.Poison == PoisonPolicy.Block;

    /// <summary>Where it goes: what nothing was said of is done, and the last attempt that failed is dead.</summary>
    public MessageOutcome OutcomeOf(QueueMessage message) => message.Outcome switch
    {
        null => MessageOutcome.Done,
        MessageOutcome.Retry when message.Attempt >= options.MaxAttempts && !_blocks => MessageOutcome.Dead,
        { } outcome => outcome,
    };

    public Verdict Judge(QueueMessage message)
    {
        var outcome = OutcomeOf(message);
        var error = outcome is MessageOutcome.Retry or MessageOutcome.Dead ? ErrorText.Of(message.Reason) : null;
        return new Verdict(outcome, error, outcome == MessageOutcome.Retry ? PauseOf(message) : TimeSpan.Zero);
    }

    private TimeSpan PauseOf(QueueMessage message) => message.RetryDelay is { } delay ? (delay < MaxDelay ? delay : MaxDelay) : PauseAfter(message.Attempt);

    private TimeSpan PauseAfter(int attempt) => attempt >= options.MaxAttempts ? options.MaxRetryDelay : _schedule.DelayAfter(attempt, _random);
}

/// <summary>What is to be done with a message, once the limits have been applied to its outcome.</summary>
/// <param name="Outcome">Where it goes.</param>
/// <param name="Error">What the table says of it; null when it is done or released.</param>
/// <param name="Delay">The pause before its next attempt.</param>
internal readonly record struct Verdict(MessageOutcome Outcome, string? Error, TimeSpan Delay);

/// <summary>A reason as the tables take it: not longer than a page, and without what PostgreSQL refuses in a text.</summary>
internal static class ErrorText
{
    public const int MaxLength = 4000;

    public static string Of(string? reason)
    {
        if (string.IsNullOrEmpty(reason))
            return "No reason was given.";
        var text = reason.Length > MaxLength ? string.Concat(reason.AsSpan(0, MaxLength - 1), "…") : reason;
        // PostgreSQL stores no NUL, and UTF-8 has no half of a surrogate pair; the cut may have made one.
        return Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(text)).Replace('\0', '\uFFFD');
    }
}
