using System.Text;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Receiving;

/// <summary>Applies the settings to the outcome that a handler marked: the limit of attempts, the pause, and a text that PostgreSQL can store. Thread-safe.</summary>
internal sealed class OutcomePolicy(PostgresQueueReceiverOptions options, Random? random = null)
{
    // A time after the end of PostgreSQL's calendar would make each attempt of the whole settlement fail.
    private static readonly TimeSpan MaxDelay = TimeSpan.FromDays(3650);

    private readonly RetrySchedule _schedule = new(options.RetryDelay, options.MaxRetryDelay);
    private readonly Random _random = random ?? Random.Shared;
    private volatile bool _storesAscii;

    // A queue without order has no key to block.
    private readonly bool _blocks = options.Shards > 0 && options.Poison == PoisonPolicy.Block;

    /// <summary>Returns the outcome: an unmarked message is done, and a message that failed on its last attempt is dead.</summary>
    public MessageOutcome OutcomeOf(QueueMessage message) => message.Outcome switch
    {
        null => MessageOutcome.Done,
        MessageOutcome.Retry when message.Attempt >= options.MaxAttempts && !_blocks => MessageOutcome.Dead,
        { } outcome => outcome,
    };

    /// <summary>False when messages of a settled batch come again. Only the server knows when they are due.</summary>
    public bool IsDone(QueueBatch batch)
    {
        for (var index = 0; index < batch.Count; index++)
        {
            if (OutcomeOf(batch[index]) is MessageOutcome.Retry or MessageOutcome.Released)
                return false;
        }

        return true;
    }

    public Verdict Evaluate(QueueMessage message) => Evaluate(message, OutcomeOf(message), message.Reason);

    /// <summary>Evaluates a message whose completion was undone.</summary>
    public Verdict EvaluateUndone(QueueMessage message) => OutcomeOf(message) == MessageOutcome.Done
        ? Evaluate(message, message.Attempt >= options.MaxAttempts ? MessageOutcome.Dead : MessageOutcome.Retry, HandlerTransaction.RolledBack)
        : Evaluate(message);

    private Verdict Evaluate(QueueMessage message, MessageOutcome outcome, string? reason)
    {
        var error = outcome is MessageOutcome.Retry or MessageOutcome.Dead ? TextOf(reason) : null;
        var delay = outcome switch
        {
            MessageOutcome.Retry => PauseOf(message),
            MessageOutcome.Released => message.RetryDelay ?? TimeSpan.Zero,
            _ => TimeSpan.Zero,
        };
        return new Verdict(outcome, error, delay);
    }

    /// <summary>How long a message that this process can't read waits before it is claimed again: at least a poll interval, so that a process that can read it claims it first.</summary>
    public static TimeSpan UnreadableDelay(PostgresQueueReceiverOptions options) => options.RetryDelay > options.PollInterval ? options.RetryDelay : options.PollInterval;

    /// <summary>Learns the encoding of the database. In one other than UTF-8, errors are stored in ASCII: a character that it lacks would make each attempt of the whole settlement fail.</summary>
    public void Fit(NpgsqlConnection connection) => _storesAscii = connection.PostgresParameters.TryGetValue("server_encoding", out var encoding) && encoding is not ("UTF8" or "SQL_ASCII");

    private string TextOf(string? reason) => _storesAscii ? ErrorText.Ascii(ErrorText.Of(reason)) : ErrorText.Of(reason);

    private TimeSpan PauseOf(QueueMessage message) => message.RetryDelay is { } delay ? (delay < MaxDelay ? delay : MaxDelay) : PauseAfter(message.Attempt);

    private TimeSpan PauseAfter(int attempt) => attempt >= options.MaxAttempts ? options.MaxRetryDelay : _schedule.DelayAfter(attempt, _random);
}

/// <summary>What to do with a message, after the settings were applied to its outcome.</summary>
/// <param name="Outcome">The final outcome.</param>
/// <param name="Error">The error that the table stores; null when it is done or released.</param>
/// <param name="Delay">The pause before its next attempt.</param>
internal readonly record struct Verdict(MessageOutcome Outcome, string? Error, TimeSpan Delay);

/// <summary>Makes a text storable: at most a page long, and without characters that PostgreSQL rejects.</summary>
internal static class ErrorText
{
    public const int MaxLength = 4000;

    private const int MaxLineLength = 300;

    /// <summary>Replaces characters that are not ASCII.</summary>
    public static string Ascii(string text) => Encoding.ASCII.GetString(Encoding.ASCII.GetBytes(text));

    /// <summary>Makes a text fit a line of a log, which it can't end.</summary>
    public static string Line(string? reason)
    {
        var line = Of(reason?.Length > MaxLineLength ? string.Concat(reason.AsSpan(0, MaxLineLength - 1), "…") : reason);
        return string.Create(line.Length, line, static (span, from) =>
        {
            for (var index = 0; index < span.Length; index++)
                span[index] = char.IsControl(from[index]) || from[index] is '\u2028' or '\u2029' ? ' ' : from[index];
        });
    }

    public static string Of(string? reason)
    {
        if (string.IsNullOrEmpty(reason))
            return "No reason was given.";
        var text = reason.Length > MaxLength ? string.Concat(reason.AsSpan(0, MaxLength - 1), "…") : reason;
        // PostgreSQL stores no NUL. UTF-8 has no half surrogate pairs, and the cut may have left one.
        return Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(text)).Replace('\0', '\uFFFD');
    }
}
