namespace BatchKit.Testing;

/// <summary>A clock that stands still until a test moves it. Timers fire on the thread that moves it, in the order in which they are due.</summary>
/// <remarks>
/// Pass it as the <see cref="TimeProvider"/> of the code under test. It starts at 2030-01-01 00:00:00 UTC. <see cref="TimerFaults"/>, <see cref="JumpWallClock"/> and
/// <see cref="StopWallClock"/> make it as unreliable as real timers and wall clocks are. Every member may be called from any thread.
/// </remarks>
public sealed class ManualTimeProvider : TimeProvider
{
    // Guards the time, the wall clock, the faults, the armed timers, the times of these, and which timers are disposed.
    private readonly Lock _lock = new();

    // Sorted, so that a test with thousands of timers does not look at all of them whenever one fires. A timer's times change only while it is not in it.
    private readonly SortedSet<ManualTimer> _timers = new(Comparer<ManualTimer>.Create(static (left, right) => (left.FiresAtTicks, left.Arming).CompareTo((right.FiresAtTicks, right.Arming))));
    private readonly DateTimeOffset _start = new(2030, 1, 1, 0, 0, 0, TimeSpan.Zero);
    private TaskCompletionSource _timersChanged = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private TimerFaults _faults = TimerFaults.None;
    private Random? _faultRandom;
    private long _elapsedTicks;
    private long _wallOffsetTicks;
    private long? _wallStoppedAtTicks;
    private long _lastArming;

    /// <inheritdoc/>
    public override long TimestampFrequency => TimeSpan.TicksPerSecond;

    /// <inheritdoc/>
    public override TimeZoneInfo LocalTimeZone => TimeZoneInfo.Utc;

    /// <summary>How timers misbehave; <see cref="TimerFaults.None"/> by default. Timers that are armed already keep their times.</summary>
    public TimerFaults TimerFaults
    {
        get
        {
            lock (_lock)
                return _faults;
        }

        set
        {
            ArgumentNullException.ThrowIfNull(value);
            lock (_lock)
            {
                _faults = value;
                _faultRandom = value.Seed is { } seed ? new Random(seed) : null;
            }
        }
    }

    /// <summary>How many timers are armed.</summary>
    public int ArmedTimers
    {
        get
        {
            lock (_lock)
                return _timers.Count;
        }
    }

    /// <summary>How long until the next timer fires, <see cref="TimerFaults"/> included; null when none is armed.</summary>
    public TimeSpan? NextDue
    {
        get
        {
            lock (_lock)
                return Earliest() is { } next ? TimeSpan.FromTicks(Math.Max(0, next.FiresAtTicks - _elapsedTicks)) : null;
        }
    }

    /// <summary>How long until the only armed timer fires; null when none is armed, or several are.</summary>
    /// <remarks>Reads both facts at once: <see cref="ArmedTimers"/> and <see cref="NextDue"/>, read one after the other, could be about different timers.</remarks>
    public TimeSpan? OnlyDue
    {
        get
        {
            lock (_lock)
                return _timers.Count == 1 ? TimeSpan.FromTicks(Math.Max(0, _timers.Min!.FiresAtTicks - _elapsedTicks)) : null;
        }
    }

    /// <summary>The wall clock: the start, plus the elapsed time, plus the jumps.</summary>
    public override DateTimeOffset GetUtcNow()
    {
        lock (_lock)
            return _start.AddTicks((_wallStoppedAtTicks ?? _elapsedTicks) + _wallOffsetTicks);
    }

    /// <summary>The elapsed time in ticks of 100 ns. It only grows, whatever the wall clock does.</summary>
    public override long GetTimestamp() => Interlocked.Read(ref _elapsedTicks);

    /// <inheritdoc/>
    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
    {
        ArgumentNullException.ThrowIfNull(callback);
        var timer = new ManualTimer(this, callback, state);
        timer.Change(dueTime, period);
        return timer;
    }

    /// <summary>Moves the clock, and fires what falls due on the way, each timer at its own time. Callbacks may create and change timers.</summary>
    /// <param name="time">How far; zero fires what is due now.</param>
    /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
    public void Advance(TimeSpan time)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero);
        var target = GetTimestamp() + time.Ticks;
        while (TakeDue(target) is var (timer, calls))
        {
            for (var call = 0; call < calls; call++)
                timer.Fire();
        }
    }

    /// <summary>Moves the clock as if the process had stood still, as it does under SIGSTOP, in a debugger or on a machine that sleeps: what falls due meanwhile fires afterwards, once for each timer.</summary>
    /// <param name="time">For how long.</param>
    /// <exception cref="ArgumentOutOfRangeException">The time is negative.</exception>
    public void Freeze(TimeSpan time)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero);
        lock (_lock)
        {
            var now = _elapsedTicks + time.Ticks;
            foreach (var timer in _timers.Where(timer => timer.PeriodTicks != 0 && timer.DueTicks <= now).ToArray())
            {
                _timers.Remove(timer);
                timer.DueTicks += (now - timer.DueTicks) / timer.PeriodTicks * timer.PeriodTicks;
                timer.FiresAtTicks = Math.Max(timer.FiresAtTicks, timer.DueTicks);
                _timers.Add(timer);
            }

            Interlocked.Exchange(ref _elapsedTicks, now);
        }

        Advance(TimeSpan.Zero);
    }

    /// <summary>Moves the clock to the next timer and fires it.</summary>
    /// <returns>How far it moved; null when no timer is armed.</returns>
    public TimeSpan? AdvanceToNextTimer()
    {
        var due = NextDue;
        if (due is { } time)
            Advance(time);
        return due;
    }

    /// <summary>Completes once at least this many timers are armed.</summary>
    /// <param name="count">How many.</param>
    /// <exception cref="TimeoutException">No timer was armed for a minute of real time, and there are fewer.</exception>
    public async Task WaitForTimersAsync(int count = 1)
    {
        while (true)
        {
            Task changed;
            lock (_lock)
            {
                if (_timers.Count >= count)
                    return;
                changed = _timersChanged.Task;
            }

            await changed.WithinDeadline().ConfigureAwait(false);
        }
    }

    /// <summary>Sets the wall clock forward, or back when the time is negative, as an administrator or NTP does. It has no effect on timers and timestamps.</summary>
    /// <param name="time">How far, for instance an hour.</param>
    public void JumpWallClock(TimeSpan time)
    {
        lock (_lock)
            _wallOffsetTicks += time.Ticks;
    }

    /// <summary>Makes <see cref="GetUtcNow"/> stand still, apart from jumps, while timers and timestamps go on.</summary>
    public void StopWallClock()
    {
        lock (_lock)
            _wallStoppedAtTicks ??= _elapsedTicks;
    }

    /// <summary>Starts a stopped wall clock again, from the time that it shows.</summary>
    public void StartWallClock()
    {
        lock (_lock)
        {
            _wallOffsetTicks -= _elapsedTicks - (_wallStoppedAtTicks ?? _elapsedTicks);
            _wallStoppedAtTicks = null;
        }
    }

    internal bool TryArm(ManualTimer timer, TimeSpan dueTime, TimeSpan period)
    {
        lock (_lock)
        {
            if (timer.IsDisposed)
                return false;
            _timers.Remove(timer);
            timer.PeriodTicks = period > TimeSpan.Zero ? period.Ticks : 0;
            if (dueTime < TimeSpan.Zero)
                return true;
            timer.DueTicks = _elapsedTicks + dueTime.Ticks;
            timer.FiresAtTicks = timer.DueTicks + _faults.DrawOffsetTicks(dueTime.Ticks, _faultRandom);
            timer.Arming = ++_lastArming;
            _timers.Add(timer);
            _timersChanged.SetResult();
            _timersChanged = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
            return true;
        }
    }

    internal void Dispose(ManualTimer timer)
    {
        lock (_lock)
        {
            timer.IsDisposed = true;
            _timers.Remove(timer);
        }
    }

    private (ManualTimer Timer, int Calls)? TakeDue(long target)
    {
        lock (_lock)
        {
            if ((_faults.OutOfOrder ? AnyDue(target) : Earliest()) is not { } timer || timer.FiresAtTicks > target)
            {
                Interlocked.Exchange(ref _elapsedTicks, Math.Max(_elapsedTicks, target));
                return null;
            }

            // Callbacks that come out of order were all late: each sees the time that the clock moves to.
            Interlocked.Exchange(ref _elapsedTicks, Math.Max(_elapsedTicks, _faults.OutOfOrder ? target : timer.FiresAtTicks));
            _timers.Remove(timer);
            if (timer.PeriodTicks != 0)
            {
                timer.DueTicks += timer.PeriodTicks;
                timer.FiresAtTicks = timer.DueTicks + _faults.DrawOffsetTicks(timer.PeriodTicks, _faultRandom);
                _timers.Add(timer);
            }

            return (timer, _faults.DrawCalls(_faultRandom));
        }
    }

    private ManualTimer? Earliest() => _timers.Min;

    private ManualTimer? AnyDue(long target)
    {
        // In the order of their arming, so that a seed draws the same one whatever their times.
        ManualTimer[] due = [.. _timers.TakeWhile(timer => timer.FiresAtTicks <= target).OrderBy(static timer => timer.Arming)];
        return _faultRandom is null ? due.MaxBy(static timer => (timer.FiresAtTicks, timer.Arming)) : due.Length == 0 ? null : due[_faultRandom.Next(due.Length)];
    }
}

/// <summary>A timer of a <see cref="ManualTimeProvider"/>, whose lock guards its times.</summary>
internal sealed class ManualTimer(ManualTimeProvider clock, TimerCallback callback, object? state) : ITimer
{
    private volatile bool _isDisposed;

    /// <summary>A firing that has begun reads it outside the lock.</summary>
    internal bool IsDisposed
    {
        get => _isDisposed;
        set => _isDisposed = value;
    }

    /// <summary>When it should fire.</summary>
    internal long DueTicks { get; set; }

    /// <summary>When it fires, faults included.</summary>
    internal long FiresAtTicks { get; set; }

    internal long PeriodTicks { get; set; }

    internal long Arming { get; set; }

    public bool Change(TimeSpan dueTime, TimeSpan period) => clock.TryArm(this, dueTime, period);

    public void Dispose() => clock.Dispose(this);

    public ValueTask DisposeAsync()
    {
        Dispose();
        return ValueTask.CompletedTask;
    }

    internal void Fire()
    {
        if (!IsDisposed)
            callback(state);
    }
}
