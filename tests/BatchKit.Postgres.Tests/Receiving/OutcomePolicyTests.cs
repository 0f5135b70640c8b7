using BatchKit.Postgres.Receiving;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class OutcomePolicyTests
{
    [Theory]
    [InlineData(1, 1000)]
    [InlineData(2, 2000)]
    [InlineData(3, 4000)]
    [InlineData(4, 8000)]
    [InlineData(5, 10_000)]
    [InlineData(99, 10_000)]
    public void Pauses_double_up_to_the_limit_less_a_part_of_up_to_a_half(int attempt, int milliseconds)
    {
        var options = new PostgresQueueReceiverOptions { MaxAttempts = 100, RetryDelay = TimeSpan.FromSeconds(1), MaxRetryDelay = TimeSpan.FromSeconds(10) };

        Assert.Equal(TimeSpan.FromMilliseconds(milliseconds), new OutcomePolicy(options, new FixedRandom(share: 0)).Evaluate(Failed(attempt)).Delay);
        Assert.Equal(TimeSpan.FromMilliseconds(milliseconds) / 2, new OutcomePolicy(options, new FixedRandom(share: 1)).Evaluate(Failed(attempt)).Delay);
    }

    [Fact]
    public void The_handlers_own_delay_goes_before_the_schedule()
    {
        var message = Some(attempt: 1);
        message.Retry("later", TimeSpan.FromMinutes(7));

        Assert.Equal(new Verdict(MessageOutcome.Retry, "later", TimeSpan.FromMinutes(7)), new OutcomePolicy(new PostgresQueueReceiverOptions()).Evaluate(message));
    }

    [Fact]
    public void A_delay_beyond_the_servers_calendar_is_cut()
    {
        var message = Some(attempt: 1);
        message.Retry("much later", TimeSpan.MaxValue);

        Assert.Equal(TimeSpan.FromDays(3650), new OutcomePolicy(new PostgresQueueReceiverOptions()).Evaluate(message).Delay);
    }

    [Fact]
    public void The_last_attempt_that_fails_is_dead()
    {
        var policy = new OutcomePolicy(new PostgresQueueReceiverOptions { MaxAttempts = 3 });

        Assert.Equal(MessageOutcome.Retry, policy.Evaluate(Failed(attempt: 2)).Outcome);
        Assert.Equal(MessageOutcome.Dead, policy.Evaluate(Failed(attempt: 3)).Outcome);
    }

    [Fact]
    public void A_blocking_queue_tries_for_ever_at_the_longest_pause()
    {
        var options = new PostgresQueueReceiverOptions { MaxAttempts = 3, Shards = 4, Poison = PoisonPolicy.Block };

        var verdict = new OutcomePolicy(options).Evaluate(Failed(attempt: 3));

        Assert.Equal((MessageOutcome.Retry, options.MaxRetryDelay), (verdict.Outcome, verdict.Delay));
    }

    [Fact]
    public void What_nothing_was_said_of_is_done() =>
        Assert.Equal(new Verdict(MessageOutcome.Done, Error: null, TimeSpan.Zero), new OutcomePolicy(new PostgresQueueReceiverOptions()).Evaluate(Some(attempt: 1)));

    private static QueueMessage Some(int attempt) => new(OutputHandle.Named("tasks"), 1, attempt, 0, DateTimeOffset.UnixEpoch, key: null, header: null, default);

    private static QueueMessage Failed(int attempt)
    {
        var message = Some(attempt);
        message.Retry("broken");
        return message;
    }

    private sealed class FixedRandom(int share) : Random
    {
        public override long NextInt64(long maxValue) => share * (maxValue - 1);
    }
}
