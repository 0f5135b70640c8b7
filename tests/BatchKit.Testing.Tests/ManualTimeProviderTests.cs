namespace BatchKit.Testing.Tests;

public sealed class ManualTimeProviderTests
{
    private readonly ManualTimeProvider _clock = new();
    private readonly List<string> _fired = [];

    [Fact]
    public void Timers_fire_in_the_order_in_which_they_are_due_and_see_their_own_time()
    {
        var start = _clock.GetUtcNow();
        using var late = Timer("late", seconds: 3);
        using var early = Timer("early", seconds: 1);
        using var never = Timer("never", seconds: 9);

        _clock.Advance(TimeSpan.FromSeconds(5));

        Assert.Equal(["early at 1", "late at 3"], _fired);
        Assert.Equal(TimeSpan.FromSeconds(5), _clock.GetUtcNow() - start);
        Assert.Equal(1, _clock.ArmedTimers);
    }

    [Fact]
    public void A_periodic_timer_fires_once_a_period_until_it_is_disposed()
    {
        var timer = Timer("tick", seconds: 1, periodSeconds: 2);

        _clock.Advance(TimeSpan.FromSeconds(6));
        timer.Dispose();
        _clock.Advance(TimeSpan.FromSeconds(6));

        Assert.Equal(["tick at 1", "tick at 3", "tick at 5"], _fired);
    }

    [Fact]
    public void A_callback_may_make_and_change_timers_that_still_fire_on_the_same_way()
    {
        using var second = Timer("second", seconds: 60);
        using var first = _clock.CreateTimer(_ => second.Change(TimeSpan.FromSeconds(1), Timeout.InfiniteTimeSpan), null, TimeSpan.FromSeconds(1), Timeout.InfiniteTimeSpan);

        _clock.Advance(TimeSpan.FromSeconds(3));

        Assert.Equal(["second at 2"], _fired);
    }

    [Fact]
    public void Only_one_timer_alone_is_the_only_one()
    {
        var none = _clock.OnlyDue;
        using var first = Timer("first", seconds: 2);
        var one = _clock.OnlyDue;
        using var second = Timer("second", seconds: 1);

        Assert.Null(none);
        Assert.Equal(TimeSpan.FromSeconds(2), one);
        Assert.Null(_clock.OnlyDue);
    }

    [Fact]
    public async Task A_delay_ends_when_the_clock_has_moved_far_enough()
    {
        var delay = Task.Delay(TimeSpan.FromSeconds(2), _clock, CancellationToken.None);
        await _clock.WaitForTimersAsync();

        _clock.Advance(TimeSpan.FromSeconds(1));
        var endedEarly = delay.IsCompleted;
        _clock.AdvanceToNextTimer();

        Assert.False(endedEarly);
        await delay.WithinDeadline();
    }

    private ITimer Timer(string name, int seconds, int periodSeconds = 0) => _clock.CreateTimer(
        _ => _fired.Add($"{name} at {_clock.GetTimestamp() / TimeSpan.TicksPerSecond}"),
        state: null,
        TimeSpan.FromSeconds(seconds),
        periodSeconds == 0 ? Timeout.InfiniteTimeSpan : TimeSpan.FromSeconds(periodSeconds));
}
