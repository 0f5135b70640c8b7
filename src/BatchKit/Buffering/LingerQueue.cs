namespace BatchKit.Buffering;

/// <summary>Handles whose unscoped output waits for company, in the order in which they are due: every linger is as long.</summary>
internal sealed class LingerQueue : IAsyncDisposable
{
    private readonly Lock _gate = new();
    private readonly TimeProvider _timeProvider;
    private readonly TimeSpan _linger;
    private readonly ITimer _timer;

    // Guarded by _gate, which may be taken inside a handle's lock.
    private readonly Queue<(HandleBuffer Handle, long Since)> _waiting = new();

    public LingerQueue(TimeProvider timeProvider, TimeSpan linger)
    {
        _timeProvider = timeProvider;
        _linger = linger;
        _timer = timeProvider.CreateTimer(static state => ((LingerQueue)state!).FlushDue(), this, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
    }

    public void Add(HandleBuffer handle)
    {
        lock (_gate)
        {
            _waiting.Enqueue((handle, _timeProvider.GetTimestamp()));
            if (_waiting.Count == 1)
                _timer.Change(_linger, Timeout.InfiniteTimeSpan);
        }
    }

    public ValueTask DisposeAsync() => _timer.DisposeAsync();

    private void FlushDue()
    {
        while (TakeDue() is { } handle)
            handle.FlushLinger();
    }

    private HandleBuffer? TakeDue()
    {
        lock (_gate)
        {
            if (!_waiting.TryPeek(out var next))
                return null;
            var left = _linger - _timeProvider.GetElapsedTime(next.Since);
            if (left <= TimeSpan.Zero)
                return _waiting.Dequeue().Handle;
            _timer.Change(left, Timeout.InfiniteTimeSpan);
            return null;
        }
    }
}
