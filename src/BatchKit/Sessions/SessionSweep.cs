using BatchKit.Batches;

namespace BatchKit.Sessions;

/// <summary>The timer of all sessions: forwards again what found no capacity, and ends what has waited for too long. It is also their clock, which counts the time in which this process ran: clients could not come back to one that stood still.</summary>
internal sealed class SessionSweep : IAsyncDisposable, IDisposable
{
    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(250);

    private readonly SessionTransport _sessions;
    private readonly TimeProvider _timeProvider;
    private readonly TimeSpan _agingPeriod;
    private readonly long _longestGap;
    private readonly ITimer _timer;

    // The time that was not counted, and the time that the clock does not pass before the next tick. A tick writes them in this order and a reader reads them in the other:
    // a new end with old uncounted time would let the clock leap.
    private long _uncounted;
    private long _end;
    private long _agedAt;
    private int _isRunning;
    private volatile bool _hasForwards;

    public SessionSweep(SessionTransport sessions, TimeSpan awayTimeout, TimeProvider timeProvider)
    {
        _sessions = sessions;
        _timeProvider = timeProvider;
        // Late by at most an eighth.
        _agingPeriod = awayTimeout / 8;
        _longestGap = (long)(1.5 * Period.TotalSeconds * timeProvider.TimestampFrequency);
        _agedAt = timeProvider.GetTimestamp();
        _end = _agedAt + _longestGap;
        // The timer must not keep its creator's context.
        using (ExecutionContext.IsFlowSuppressed() ? default(AsyncFlowControl?) : ExecutionContext.SuppressFlow())
            _timer = timeProvider.CreateTimer(static state => ((SessionSweep)state!).Run(), this, Period, Period);
    }

    /// <summary>A timestamp by which the sessions age.</summary>
    public long Now => GetTimestamp(_timeProvider.GetTimestamp());

    /// <summary>Lets the next run forward for all sessions.</summary>
    public void ForwardsSoon() => _hasForwards = true;

    // A run forwards, and with it calls transports, which may block.
    public ValueTask DisposeAsync() => BufferClock.EndAsync(_timer, _timeProvider);

    public void Dispose() => _timer.Dispose();

    private void Run()
    {
        // A run that takes longer than the period skips the next.
        if (Interlocked.Exchange(ref _isRunning, 1) != 0)
            return;
        try
        {
            var now = Tick();
            if (_hasForwards)
            {
                _hasForwards = false;
                _sessions.ForwardAll();
            }

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

    private long Tick()
    {
        var now = _timeProvider.GetTimestamp();
        var running = GetTimestamp(now);
        Volatile.Write(ref _uncounted, now - running);
        Volatile.Write(ref _end, running + _longestGap);
        return running;
    }

    private long GetTimestamp(long now)
    {
        var end = Volatile.Read(ref _end);
        return Math.Min(now - Volatile.Read(ref _uncounted), end);
    }
}

/// <summary>What the passing of time does to a session.</summary>
internal enum SessionAge
{
    Live = 0,
    Silent = 1,
    Expired = 2,
}
