namespace BatchKit.Broadcast.Connections;

/// <summary>A clock that counts the time in which this process ran. While the process stands still, as under SIGSTOP, in a debugger or on a machine that sleeps, its time limits do not go on.</summary>
/// <remarks>
/// Its owner calls <see cref="Tick"/> periodically. The clock goes at most half a period, or 50 ms if that is longer, further than a tick should take, so all that a process slept through counts for no more than that.
/// Its timers fire by its own time. All members are thread-safe.
/// </remarks>
internal sealed class RunningClock : TimeProvider
{
    // Timers may be that coarse: on Windows they fire every 15.6 ms. With a shorter period each tick would be late.
    private static readonly TimeSpan LeastSlack = TimeSpan.FromMilliseconds(50);

    private readonly long _longestGap;

    // The time that was not counted, and the time that the clock does not pass before the next tick. A tick writes them in this order and a reader reads them in the other:
    // a new end with old uncounted time would let the clock leap.
    private long _uncounted;
    private long _end;

    // Guards what follows, and the two above against another tick.
    private readonly Lock _lock = new();
    private long _tickedAt;
    private long _trustedAt;

    /// <param name="inner">The clock that goes on while the process stands still.</param>
    /// <param name="period">The time between two ticks.</param>
    public RunningClock(TimeProvider inner, TimeSpan period)
    {
        Inner = inner;
        var slack = period / 2 > LeastSlack ? period / 2 : LeastSlack;
        _longestGap = (long)((period + slack).TotalSeconds * inner.TimestampFrequency);
        _tickedAt = _trustedAt = inner.GetTimestamp();
        _end = _tickedAt + _longestGap;
    }

    /// <summary>The clock that goes on while the process stands still.</summary>
    public TimeProvider Inner { get; }

    /// <inheritdoc/>
    public override long TimestampFrequency => Inner.TimestampFrequency;

    /// <inheritdoc/>
    public override TimeZoneInfo LocalTimeZone => Inner.LocalTimeZone;

    /// <inheritdoc/>
    public override DateTimeOffset GetUtcNow() => Inner.GetUtcNow();

    /// <inheritdoc/>
    public override long GetTimestamp() => GetTimestamp(Inner.GetTimestamp());

    /// <inheritdoc/>
    public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) => new RunningTimer(this, callback, state, dueTime, period);

    /// <summary>Notes that the process runs.</summary>
    /// <returns>
    /// False when the tick came late, or shortly after one that did. What the peers sent meanwhile may not be read yet, and what waits for them not be written, so no limit may be applied.
    /// </returns>
    public bool Tick()
    {
        lock (_lock)
        {
            var now = Inner.GetTimestamp();
            var running = GetTimestamp(now);
            if (now - _tickedAt > _longestGap)
                _trustedAt = now + _longestGap;
            _tickedAt = now;
            Volatile.Write(ref _uncounted, now - running);
            Volatile.Write(ref _end, running + _longestGap);
            return now >= _trustedAt;
        }
    }

    /// <summary>Lets the clock go on without ticks: its owner ends.</summary>
    public void Release() => Volatile.Write(ref _end, long.MaxValue);

    private long GetTimestamp(long now)
    {
        var end = Volatile.Read(ref _end);
        return Math.Min(now - Volatile.Read(ref _uncounted), end);
    }
}

/// <summary>A timer of a <see cref="RunningClock"/>: it waits on for the time that the process stood still. A periodic one fires once after that.</summary>
internal sealed class RunningTimer : ITimer
{
    private readonly RunningClock _clock;
    private readonly TimerCallback _callback;
    private readonly object? _state;
    private readonly ITimer _timer;

    // Guards what follows, and that no late firing of the inner timer arms it again after a change.
    private readonly Lock _lock = new();
    private long _armedAt;
    private TimeSpan _dueTime;
    private TimeSpan _period;

    public RunningTimer(RunningClock clock, TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period)
    {
        _clock = clock;
        _callback = callback;
        _state = state;
        _timer = clock.Inner.CreateTimer(static timer => ((RunningTimer)timer!).Fire(), this, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
        Change(dueTime, period);
    }

    /// <inheritdoc/>
    public bool Change(TimeSpan dueTime, TimeSpan period)
    {
        lock (_lock)
        {
            (_armedAt, _dueTime, _period) = (_clock.GetTimestamp(), dueTime, period);
            return _timer.Change(dueTime, Timeout.InfiniteTimeSpan);
        }
    }

    /// <inheritdoc/>
    public void Dispose() => _timer.Dispose();

    /// <inheritdoc/>
    public ValueTask DisposeAsync() => _timer.DisposeAsync();

    private void Fire()
    {
        lock (_lock)
        {
            if (_dueTime < TimeSpan.Zero)
                return;
            var left = _dueTime - _clock.GetElapsedTime(_armedAt);

            // The system's timers may fire a little early, and count whole milliseconds.
            if (left >= TimeSpan.FromMilliseconds(1))
            {
                _timer.Change(left, Timeout.InfiniteTimeSpan);
                return;
            }

            (_armedAt, _dueTime) = (_clock.GetTimestamp(), _period > TimeSpan.Zero ? _period : Timeout.InfiniteTimeSpan);
            _timer.Change(_dueTime, Timeout.InfiniteTimeSpan);
        }

        _callback(_state);
    }
}
