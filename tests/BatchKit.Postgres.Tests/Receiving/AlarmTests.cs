using BatchKit.Postgres.Receiving;
using BatchKit.Testing;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class AlarmTests
{
    [Fact]
    public async Task It_sleeps_through_the_last_part_of_a_millisecond()
    {
        var clock = new ManualTimeProvider();
        var alarm = new Alarm(clock);
        var waiting = alarm.WaitAsync(TimeSpan.FromMilliseconds(5.4), TestContext.Current.CancellationToken);

        clock.Advance(TimeSpan.FromMilliseconds(5));
        Assert.Equal(TimeSpan.FromMilliseconds(1), clock.NextDue);
        clock.Advance(TimeSpan.FromMilliseconds(1));

        await waiting.WithinDeadline();
    }
}
