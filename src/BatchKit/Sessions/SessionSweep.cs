namespace BatchKit.Sessions;

/// <summary>The timer of all sessions: forwards again what found no capacity, and ends what has waited for too long.</summary>
internal sealed class SessionSweep : IAsyncDisposable, IDisposable
{
    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(250);

    private readonly SessionTransport _sessions;
    private readonly TimeProvider _timeProvider;
    private readonly TimeSpan _agingPeriod;
    private readonly ITimer _timer;
    private long _agedAt;
    private int _isRunning;
    private volatile bool _hasForwards;

    public SessionSweep(SessionTransport sessions, TimeSpan awayTimeout, TimeProvider timeProvider)
    {
        _sessions = sessions;
        _timeProvider = timeProvider;
        // Late by at most an eighth.
        _agingPeriod = awayTimeout / 8;
        _agedAt = timeProvider.GetTimestamp();
        // The timer must not keep its creator's context.
        using (ExecutionContext.IsFlowSuppressed() ? default(AsyncFlowControl?) : ExecutionContext.SuppressFlow())
            _timer = timeProvider.CreateTimer(static state => ((SessionSweep)state!).Run(), this, Period, Period);
    }

    /// <summary>Lets the next run forward for all sessions.</summary>
    public void ForwardsSoon() => _hasForwards = true;

    public ValueTask DisposeAsync() => _timer.DisposeAsync();

    public void Dispose() => _timer.Dispose();

    private void Run()
    {
        // A run that takes longer than the period skips the next.
        if (Interlocked.Exchange(ref _isRunning, 1) != 0)
            return;
        try
        {
            if (_hasForwards)
            {
                _hasForwards = false;
                _sessions.ForwardAll();
            }

            var now = _timeProvider.GetTimestamp();
            if (_timeProvider.GetElapsedTime(_agedAt, now) >= _agingPeriod)
            {
                _agedAt = now;
                _sessions.Age(now);
            }
        }
        catch (Exception failure)
        {
            _sessions.CountFailure(failure);
        }
        finally
        {
            Volatile.Write(ref _isRunning, 0);
        }
    }
}
