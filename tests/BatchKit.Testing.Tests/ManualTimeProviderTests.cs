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
    public async Task A_timer_that_is_disposed_beside_its_change_is_not_armed()
    {
        var timers = new ITimer[100_000];
        for (var index = 0; index < timers.Length; index++)
            timers[index] = _clock.CreateTimer(static _ => { }, state: null, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        var arrivals = 0;

        await Task.WhenAll(
            OnOwnThread(static timer => timer.Change(TimeSpan.FromSeconds(1), Timeout.InfiniteTimeSpan)),
            OnOwnThread(static timer => timer.Dispose()));

        Assert.Equal(0, _clock.ArmedTimers);

        Task OnOwnThread(Action<ITimer> act) => Task.Factory.StartNew(
            () =>
            {
                for (var round = 0; round < timers.Length; round++)
                {
                    Interlocked.Increment(ref arrivals);
                    for (var spin = default(SpinWait); Volatile.Read(ref arrivals) < 2 * (round + 1);)
                        spin.SpinOnce(sleep1Threshold: -1);
                    act(timers[round]);
                }
            },
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default).WaitAsync(TimeSpan.FromMinutes(1));
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

    [Fact]
    public void An_early_timer_sees_a_time_before_its_due_time()
    {
        _clock.TimerFaults = new TimerFaults { Early = Milliseconds(3) };
        using var timer = FineTimer("early", Milliseconds(100));

        _clock.Advance(Milliseconds(96));
        var firedTooEarly = _fired.Count;
        _clock.Advance(Milliseconds(1));

        Assert.Equal(0, firedTooEarly);
        Assert.Equal(["early at 97"], _fired);
    }

    [Fact]
    public void A_timer_that_is_armed_again_for_what_is_missing_reaches_its_time()
    {
        _clock.TimerFaults = new TimerFaults { Early = Milliseconds(3) };
        var (due, calls) = (Milliseconds(100).Ticks, 0);
        ITimer? timer = null;
        timer = _clock.CreateTimer(_ => Rearm(), null, TimeSpan.FromTicks(due), Timeout.InfiniteTimeSpan);

        _clock.Advance(Milliseconds(100));

        Assert.InRange(calls, 2, 30);
        Assert.Equal(0, _clock.ArmedTimers);

        void Rearm()
        {
            calls++;
            if (_clock.GetTimestamp() < due)
                timer!.Change(TimeSpan.FromTicks(due - _clock.GetTimestamp()), Timeout.InfiniteTimeSpan);
        }
    }

    [Fact]
    public void A_late_timer_fires_after_one_that_is_due_later()
    {
        _clock.TimerFaults = new TimerFaults { Late = Milliseconds(50) };
        using var late = FineTimer("late", Milliseconds(10));
        _clock.TimerFaults = TimerFaults.None;
        using var punctual = FineTimer("punctual", Milliseconds(20));

        var next = _clock.NextDue;
        _clock.Advance(Milliseconds(100));

        Assert.Equal(Milliseconds(20), next);
        Assert.Equal(["punctual at 20", "late at 60"], _fired);
    }

    [Fact]
    public void A_doubled_timer_calls_back_twice_until_it_is_disposed()
    {
        _clock.TimerFaults = new TimerFaults { Twice = true };
        using var doubled = FineTimer("doubled", Milliseconds(10));
        ITimer? disposed = null;
        disposed = _clock.CreateTimer(_ => { _fired.Add("disposed"); disposed!.Dispose(); }, null, Milliseconds(20), Timeout.InfiniteTimeSpan);

        _clock.Advance(Milliseconds(30));

        Assert.Equal(["doubled at 10", "doubled at 10", "disposed"], _fired);
    }

    [Fact]
    public void Timers_out_of_order_fire_last_first_when_the_clock_has_moved_all_the_way()
    {
        _clock.TimerFaults = new TimerFaults { OutOfOrder = true };
        using var first = FineTimer("first", Milliseconds(10));
        using var second = FineTimer("second", Milliseconds(20));
        using var third = FineTimer("third", Milliseconds(40));

        _clock.Advance(Milliseconds(30));
        _clock.Advance(Milliseconds(10));

        Assert.Equal(["second at 30", "first at 30", "third at 40"], _fired);
    }

    [Fact]
    public void The_same_seed_draws_the_same_faults_again()
    {
        var seeds = Enumerable.Range(0, 20).ToArray();

        var runs = seeds.Select(FireHundred).ToArray();

        Assert.Equal(runs, seeds.Select(FireHundred));
        Assert.Equal(runs.Length, runs.Distinct(StringComparer.Ordinal).Count());
    }

    [Theory]
    [InlineData(1)]
    [InlineData(-1)]
    public void The_wall_clock_jumps_without_the_timers_and_timestamps(int hours)
    {
        using var timer = FineTimer("timer", Milliseconds(10));
        var (wall, timestamp) = (_clock.GetUtcNow(), _clock.GetTimestamp());

        _clock.JumpWallClock(TimeSpan.FromHours(hours));
        _clock.Advance(Milliseconds(10));

        Assert.Equal(TimeSpan.FromHours(hours) + Milliseconds(10), _clock.GetUtcNow() - wall);
        Assert.Equal(Milliseconds(10), _clock.GetElapsedTime(timestamp));
        Assert.Equal(["timer at 10"], _fired);
    }

    [Fact]
    public void A_stopped_wall_clock_stands_still_and_goes_on_from_there()
    {
        var wall = _clock.GetUtcNow();
        _clock.StopWallClock();
        _clock.Advance(Milliseconds(500));
        var stopped = _clock.GetUtcNow();
        _clock.JumpWallClock(Milliseconds(7));
        var jumped = _clock.GetUtcNow();

        _clock.StartWallClock();
        _clock.Advance(Milliseconds(20));

        Assert.Equal(wall, stopped);
        Assert.Equal(wall + Milliseconds(7), jumped);
        Assert.Equal(wall + Milliseconds(27), _clock.GetUtcNow());
        Assert.Equal(Milliseconds(520).Ticks, _clock.GetTimestamp());
    }

    [Fact]
    public void Faults_have_limits()
    {
        Assert.Throws<ArgumentOutOfRangeException>(() => new TimerFaults { Early = Milliseconds(4) });
        Assert.Throws<ArgumentOutOfRangeException>(() => new TimerFaults { Early = Milliseconds(-1) });
        Assert.Throws<ArgumentOutOfRangeException>(() => new TimerFaults { Late = Milliseconds(-1) });
    }

    private static TimeSpan Milliseconds(int count) => TimeSpan.FromMilliseconds(count);

    // What a hundred timers did, one due each 10 ms, on a clock that moves by 25 ms.
    private static string FireHundred(int seed)
    {
        var clock = new ManualTimeProvider { TimerFaults = TimerFaults.Random(seed) };
        var fired = new List<string>();
        var timers = Enumerable.Range(1, 100)
            .Select(number => clock.CreateTimer(_ => fired.Add($"{number} at {clock.GetTimestamp()}"), null, Milliseconds(number * 10), Timeout.InfiniteTimeSpan))
            .ToArray();
        while (clock.ArmedTimers > 0)
            clock.Advance(Milliseconds(25));
        Array.ForEach(timers, timer => timer.Dispose());
        Assert.InRange(fired.Count, 101, 199);
        Assert.Equal(100, fired.Select(line => line.Split(' ')[0]).Distinct(StringComparer.Ordinal).Count());
        return string.Join(", ", fired);
    }

    private ITimer FineTimer(string name, TimeSpan due) => _clock.CreateTimer(
        _ => _fired.Add($"{name} at {_clock.GetTimestamp() / TimeSpan.TicksPerMillisecond}"), state: null, due, Timeout.InfiniteTimeSpan);

    private ITimer Timer(string name, int seconds, int periodSeconds = 0) => _clock.CreateTimer(
        _ => _fired.Add($"{name} at {_clock.GetTimestamp() / TimeSpan.TicksPerSecond}"),
        state: null,
        TimeSpan.FromSeconds(seconds),
        periodSeconds == 0 ? Timeout.InfiniteTimeSpan : TimeSpan.FromSeconds(periodSeconds));
}
