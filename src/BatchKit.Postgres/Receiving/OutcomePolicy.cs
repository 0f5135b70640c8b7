using BatchKit.Transports;

namespace BatchKit.Postgres.Receiving;

/// <summary>Turns what a handler said of a message into what the tables do with it: the limit of attempts, the pauses, and texts that PostgreSQL stores. Any thread.</summary>
internal sealed class OutcomePolicy(PostgresQueueReceiverOptions options)
{
    private readonly RetrySchedule _schedule = new(options.RetryDelay, options.MaxRetryDelay);

    // A queue without order has no key to block.
    private readonly bool _blocks = options.Shards > 0 && options.Poison == PoisonPolicy.Block;

    public Verdict Judge(QueueMessage message) => message.Outcome switch
    {
        MessageOutcome.Retry when message.Attempt >= options.MaxAttempts && !_blocks => new Verdict(MessageOutcome.Dead, ErrorText.Of(message.Reason), TimeSpan.Zero),
        MessageOutcome.Retry => new Verdict(MessageOutcome.Retry, ErrorText.Of(message.Reason), message.RetryDelay ?? PauseAfter(message.Attempt)),
        MessageOutcome.Dead => new Verdict(MessageOutcome.Dead, ErrorText.Of(message.Reason), TimeSpan.Zero),
        MessageOutcome.Released => new Verdict(MessageOutcome.Released, Error: null, TimeSpan.Zero),
        _ => new Verdict(MessageOutcome.Done, Error: null, TimeSpan.Zero),
    };

    private TimeSpan PauseAfter(int attempt) => attempt >= options.MaxAttempts ? options.MaxRetryDelay : _schedule.DelayAfter(attempt, Random.Shared);
}
