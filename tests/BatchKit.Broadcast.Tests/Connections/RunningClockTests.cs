using BatchKit.Broadcast.Connections;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class RunningClockTests
{
    private static readonly TimeSpan Second = TimeSpan.FromSeconds(1);

    private readonly ManualTimeProvider _time = new();
    private readonly RunningClock _clock;
    private readonly ITimer _ticking;
    private bool _isTrusted = true;

    public RunningClockTests()
    {
        _clock = new RunningClock(_time, Second);
        _ticking = _time.CreateTimer(_ => _isTrusted = _clock.Tick(), state: null, Second, Second);
    }

    [Theory]
    [InlineData(2)]
    [InlineData(33)]
    [InlineData(86_400)]
    public void Time_in_which_the_process_stood_still_counts_for_no_more_than_a_late_tick(int seconds)
    {
        _time.Advance(10 * Second);
        var before = _clock.GetTimestamp();

        _time.Freeze(seconds * Second);
        var after = _clock.GetElapsedTime(before);
        _time.Advance(100 * Second);

        Assert.InRange(after, TimeSpan.Zero, 1.5 * Second);
        Assert.InRange(_clock.GetElapsedTime(before), 100 * Second, 101.5 * Second);
    }

    [Fact]
    public void While_the_process_runs_it_shows_the_inner_clocks_time()
    {
        var random = new Random(1);
        for (var step = 0; step < 1000; step++)
        {
            _time.Advance(random.NextDouble() * Second);
            Assert.Equal(_time.GetTimestamp(), _clock.GetTimestamp());
            Assert.True(_isTrusted);
        }
    }

    [Fact]
    public void Ticks_of_a_coarse_timer_are_trusted_however_short_the_period_is()
    {
        var clock = new RunningClock(_time, TimeSpan.FromMilliseconds(2.5));
        for (var tick = 0; tick < 10; tick++)
        {
            _time.Freeze(TimeSpan.FromMilliseconds(15.6));
            Assert.True(clock.Tick());
            Assert.Equal(_time.GetTimestamp(), clock.GetTimestamp());
        }
    }

    [Fact]
    public void A_tick_that_came_late_is_not_trusted_and_the_next_one_in_time_is()
    {
        _time.Advance(10 * Second);

        _time.Freeze(5 * Second);
        var late = _isTrusted;
        var soon = _clock.Tick();
        _time.Advance(2 * Second);

        Assert.Equal((false, false, true), (late, soon, _isTrusted));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void A_timer_waits_on_for_the_time_that_the_process_stood_still(bool isPeriodic)
    {
        var fired = 0;
        using var timer = _clock.CreateTimer(_ => fired++, state: null, 10 * Second, isPeriodic ? 10 * Second : Timeout.InfiniteTimeSpan);
        _time.Advance(5 * Second);

        _time.Freeze(60 * Second);
        var early = fired;
        _time.Advance(3 * Second);
        early += fired;
        _time.Advance(2 * Second);
        var due = fired;
        _time.Advance(100 * Second);

        Assert.Equal((0, 1, isPeriodic ? 11 : 1), (early, due, fired));
    }

    [Fact]
    public void A_timer_that_was_changed_or_disposed_fires_by_its_new_time_or_never()
    {
        var fired = new List<string>();
        using var stopped = _clock.CreateTimer(_ => fired.Add("stopped"), state: null, Second, Timeout.InfiniteTimeSpan);
        using var changed = _clock.CreateTimer(_ => fired.Add("changed"), state: null, Second, Timeout.InfiniteTimeSpan);
        var disposed = _clock.CreateTimer(_ => fired.Add("disposed"), state: null, Second, Second);
        stopped.Change(Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        changed.Change(3 * Second, Timeout.InfiniteTimeSpan);
        disposed.Dispose();

        _time.Advance(2 * Second);
        Assert.Empty(fired);
        _time.Advance(10 * Second);

        Assert.Equal(["changed"], fired);
    }

    [Fact]
    public void Without_its_owner_the_clock_and_its_timers_go_on()
    {
        var fired = false;
        using var timer = _clock.CreateTimer(_ => fired = true, state: null, 30 * Second, Timeout.InfiniteTimeSpan);
        _ticking.Dispose();
        _clock.Release();

        _time.Advance(30 * Second);

        Assert.Equal((true, _time.GetTimestamp()), (fired, _clock.GetTimestamp()));
    }
}
