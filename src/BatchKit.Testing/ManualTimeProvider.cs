namespace BatchKit.Testing;

/// <summary>A clock that stands still until a test moves it. Timers fire on the thread that moves it, in the order in which they are due.</summary>
public sealed class ManualTimeProvider : TimeProvider
{
    // Guards the time, the list, and the due times of the timers in it.
    private readonly Lock _lock = new();
    private readonly List<ManualTimer> _timers = [];
    private readonly DateTimeOffset _start = new(2030, 1, 1, 0, 0, 0, TimeSpan.Zero);
    private TaskCompletionSource _timersChanged = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _elapsedTicks;
    private long _lastArming;

    /// <inheritdoc/>
    public override long TimestampFrequency => TimeSpan.TicksPerSecond;

    /// <inheritdoc/>
    public override TimeZoneInfo LocalTimeZone => TimeZoneInfo.Utc;

    /// <summary>How many timers are armed.</summary>
    public int ArmedTimers
    {
        get
        {
            lock (_lock)
                return _timers.Count;
        }
    }

    /// <summary>How long until the next timer is due; null when none is armed.</summary>
    public TimeSpan? NextDue
    {
        get
        {
            lock (_lock)
                return Earliest() is { } next ? TimeSpan.FromTicks(next.DueTicks - _elapsedTicks) : null;
        }
    }

    /// <summary>How long until the only timer is due; null when none is armed, or several are. One look, where the two above could each be about another timer.</summary>
    public TimeSpan? OnlyDue
    {
        get
        {
            lock (_lock)
                return _timers.Count == 1 ? TimeSpan.FromTicks(_timers[0].DueTicks - _elapsedTicks) : null;
        }
    }

    /// <inheritdoc/>
    public override DateTimeOffset GetUtcNow() => _start.AddTicks(GetTimestamp());

    /// <inheritdoc/>
    public override long GetTimestamp() => Interlocked.Read(ref _elapsedTicks);

    /// <inheritdoc/>
    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
    {
        var timer = new ManualTimer(this, callback, state);
        timer.Change(dueTime, period);
        return timer;
    }

    /// <summary>Moves the clock, and fires what falls due on the way, each at its own time. Callbacks may make and change timers.</summary>
    public void Advance(TimeSpan time)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(time, TimeSpan.Zero);
        var target = GetTimestamp() + time.Ticks;
        while (TakeDue(target) is { } timer)
            timer.Fire();
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

    /// <summary>Completes once at least so many timers are armed, within the deadline of a test.</summary>
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

    internal void Arm(ManualTimer timer, TimeSpan dueTime, TimeSpan period)
    {
        lock (_lock)
        {
            _timers.Remove(timer);
            timer.PeriodTicks = period > TimeSpan.Zero ? period.Ticks : 0;
            if (dueTime < TimeSpan.Zero)
                return;
            timer.DueTicks = _elapsedTicks + dueTime.Ticks;
            timer.Arming = ++_lastArming;
            _timers.Add(timer);
            _timersChanged.SetResult();
            _timersChanged = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }
    }

    internal void Disarm(ManualTimer timer)
    {
        lock (_lock)
            _timers.Remove(timer);
    }

    private ManualTimer? TakeDue(long target)
    {
        lock (_lock)
        {
            if (Earliest() is not { } timer || timer.DueTicks > target)
            {
                Interlocked.Exchange(ref _elapsedTicks, Math.Max(_elapsedTicks, target));
                return null;
            }

            Interlocked.Exchange(ref _elapsedTicks, Math.Max(_elapsedTicks, timer.DueTicks));
            if (timer.PeriodTicks == 0)
                _timers.Remove(timer);
            else
                timer.DueTicks += timer.PeriodTicks;
            return timer;
        }
    }

    private ManualTimer? Earliest() => _timers.MinBy(timer => (timer.DueTicks, timer.Arming));
}

/// <summary>A timer of a <see cref="ManualTimeProvider"/>, which owns its times.</summary>
internal sealed class ManualTimer(ManualTimeProvider clock, TimerCallback callback, object? state) : ITimer
{
    private bool _disposed;

    internal long DueTicks { get; set; }

    internal long PeriodTicks { get; set; }

    internal long Arming { get; set; }

    public bool Change(TimeSpan dueTime, TimeSpan period)
    {
        if (Volatile.Read(ref _disposed))
            return false;
        clock.Arm(this, dueTime, period);
        return true;
    }

    public void Dispose()
    {
        Volatile.Write(ref _disposed, true);
        clock.Disarm(this);
    }

    public ValueTask DisposeAsync()
    {
        Dispose();
        return ValueTask.CompletedTask;
    }

    internal void Fire()
    {
        if (!Volatile.Read(ref _disposed))
            callback(state);
    }
}
