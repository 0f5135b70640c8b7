using BatchKit.Batches;

namespace BatchKit.Sessions;

/// <summary>The timer of all sessions: forwards again what found no capacity, and ends what has waited for too long. It is also their clock, which counts the time in which this process ran: clients could not come back to one that stood still.</summary>
internal sealed class SessionSweep : IAsyncDisposable, IDisposable
{
    // Each run that a forward blocks holds a thread of the pool.
    private const int MaxRuns = 16;

    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(250);

    private readonly SessionTransport _sessions;
    private readonly TimeProvider _timeProvider;
    private readonly TimeSpan _agingPeriod;
    private readonly long _longestGap;
    private readonly ITimer _timer;

    // Guards the ageing and the pass. Nothing of the application's runs under it.
    private readonly Lock _lock = new();
    private Pass? _pass;
    private int _runs;

    // The time that was not counted, and the time that the clock does not pass before the next tick. A tick writes them in this order and a reader reads them in the other:
    // a new end with old uncounted time would let the clock leap.
    private long _uncounted;
    private long _end;
    private long _agedAt;
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
        var pass = TryBegin();
        if (pass is null)
            return;
        while (pass.TryTake(out var connection, out var session))
            Forward(connection, session);
        lock (_lock)
            _runs--;
    }

    private void Forward(OutputHandle connection, Session? session)
    {
        try
        {
            if (session is null)
                _sessions.TellAgain(connection);
            else
                _sessions.ForwardAgain(session);
        }
        catch (Exception failure)
        {
            // A timer's exception would end the process.
            _sessions.CountFailure(failure);
        }
    }

    /// <summary>Ages the sessions, and begins a pass, or takes part in one whose runs are all blocked.</summary>
    private Pass? TryBegin()
    {
        lock (_lock)
        {
            var now = Tick();
            if (_timeProvider.GetElapsedTime(_agedAt, now) >= _agingPeriod)
            {
                _agedAt = now;
                _sessions.Age(now);
            }

            var isRunning = _pass is { IsComplete: false };
            if (_runs == MaxRuns || (isRunning ? _pass!.HasMoved() : !_hasForwards))
                return null;
            if (!isRunning)
            {
                _hasForwards = false;
                _pass = new Pass(_sessions.GetForwards());
            }

            _runs++;
            return _pass;
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

    /// <summary>One forward for each connection that is told something and each session. Runs share it: a transport or a router that blocks the thread of one holds up its own session.</summary>
    private sealed class Pass((OutputHandle[] Connections, Session[] Sessions) forwards)
    {
        private readonly int _count = forwards.Connections.Length + forwards.Sessions.Length;
        private int _taken;
        private int _takenBefore;

        public bool IsComplete => Volatile.Read(ref _taken) >= _count;

        /// <summary>True when a run has taken a forward since the last call.</summary>
        public bool HasMoved()
        {
            var before = _takenBefore;
            return (_takenBefore = Volatile.Read(ref _taken)) != before;
        }

        /// <summary>Takes the next forward: a connection that is told something, or a session.</summary>
        public bool TryTake(out OutputHandle connection, out Session? session)
        {
            var index = Interlocked.Increment(ref _taken) - 1;
            var isNotice = index < forwards.Connections.Length;
            connection = isNotice ? forwards.Connections[index] : default;
            session = isNotice || index >= _count ? null : forwards.Sessions[index - forwards.Connections.Length];
            return index < _count;
        }
    }
}
