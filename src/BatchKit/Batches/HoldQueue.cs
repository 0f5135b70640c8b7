namespace BatchKit.Batches;

/// <summary>What holds output back for a limited time: a scope with a limit, or a partition that lingers.</summary>
internal interface ITimedHold
{
    /// <summary>Queues what is due. Called on a timer's thread, under no lock.</summary>
    void OnDue();
}

/// <summary>The holds that end at a time, the earliest first, with one timer for all.</summary>
internal sealed class HoldQueue : IAsyncDisposable
{
    private readonly Lock _gate = new();
    private readonly BufferClock _clock;
    private readonly ITimer _timer;

    // Guarded by _gate, which may be taken inside a handle's lock. Holds that end at the same time end in the order in which they were added: an ambient scope's before those of its handles.
    private readonly PriorityQueue<ITimedHold, (long Due, long Number)> _holds = new();
    private long _lastNumber;

    public HoldQueue(BufferClock clock)
    {
        _clock = clock;
        _timer = clock.CreateTimer(static state => ((HoldQueue)state!).OnTimer(), this);
    }

    /// <param name="hold">What ends.</param>
    /// <param name="due">When, as a stamp of the clock.</param>
    public void Add(ITimedHold hold, long due)
    {
        lock (_gate)
        {
            var isEarliest = !_holds.TryPeek(out _, out var earliest) || due < earliest.Due;
            _holds.Enqueue(hold, (due, ++_lastNumber));
            if (isEarliest)
                Arm(_clock.Until(due));
        }
    }

    public ValueTask DisposeAsync()
    {
        lock (_gate)
            _holds.Clear();
        return _timer.DisposeAsync();
    }

    private void OnTimer()
    {
        while (TakeDue() is { } hold)
            hold.OnDue();
    }

    // A timer may fire early (.NET's do, by up to 3 ms), so it is armed again for the rest.
    private ITimedHold? TakeDue()
    {
        lock (_gate)
        {
            if (!_holds.TryPeek(out _, out var next))
                return null;
            var left = _clock.Until(next.Due);
            if (left <= TimeSpan.Zero)
                return _holds.Dequeue();
            Arm(left);
            return null;
        }
    }

    private void Arm(TimeSpan time) => _timer.Change(time > TimeSpan.Zero ? time : TimeSpan.Zero, Timeout.InfiniteTimeSpan);
}
