using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class RetryScheduleTests
{
    private static readonly TimeSpan FirstDelay = TimeSpan.FromMilliseconds(100);
    private static readonly TimeSpan MaxDelay = TimeSpan.FromSeconds(5);
    private readonly RetrySchedule _schedule = new(FirstDelay, MaxDelay);

    [Theory]
    [InlineData(1, 100)]
    [InlineData(2, 200)]
    [InlineData(6, 3200)]
    [InlineData(7, 5000)]
    [InlineData(int.MaxValue, 5000)]
    public void The_pause_doubles_with_each_failure_up_to_the_limit(int failures, int milliseconds)
    {
        var delay = _schedule.DelayAfter(failures, new FixedRandom(share: 0));

        Assert.Equal(TimeSpan.FromMilliseconds(milliseconds), delay);
    }

    [Fact]
    public void The_random_part_takes_away_a_half_at_most()
    {
        var delay = _schedule.DelayAfter(failures: 1, new FixedRandom(share: 1));

        Assert.Equal(FirstDelay / 2, delay);
    }

    [Fact]
    public void The_random_part_leaves_a_millisecond_at_least()
    {
        var shortest = TimeSpan.FromMilliseconds(1);

        Assert.Equal(shortest, new RetrySchedule(shortest, shortest).DelayAfter(failures: 1, new FixedRandom(share: 1)));
    }

    /// <summary>Draws the same share of the range each time.</summary>
    private sealed class FixedRandom(double share) : Random
    {
        public override long NextInt64(long maxValue) => (long)((maxValue - 1) * share);
    }
}
