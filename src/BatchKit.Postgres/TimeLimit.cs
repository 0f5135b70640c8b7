using BatchKit.Transports;

namespace BatchKit.Postgres;

/// <summary>Cancels a token when a time limit has passed, or the caller cancels.</summary>
/// <remarks>
/// The timer only triggers a check: a timer that fires early is set again for the remaining time. The token is cancelled on the thread pool, and exceptions of its callbacks are observed, because on the timer's own
/// thread they would end the process. Npgsql's callback throws while its connection is being closed.
/// </remarks>
internal sealed class TimeLimit : IDisposable
{
    private readonly TimeProvider _timeProvider;
    private readonly CancellationTokenSource _ending;
    private readonly ITimer _timer;
    private volatile bool _isOver;

    // Guards the fields below.
    private readonly Lock _gate = new();
    private TimeSpan _limit;
    private long _since;

    public TimeLimit(TimeSpan limit, TimeProvider timeProvider, CancellationToken cancellationToken)
    {
        _timeProvider = timeProvider;
        _ending = CancellationTokenSource.CreateLinkedTokenSource(cancellationToken);
        _timer = CallerContext.CreateTimer(timeProvider, static self => ((TimeLimit)self!).Look(), this);
        Restart(limit);
    }

    public CancellationToken Token => _ending.Token;

    /// <summary>True once the limit has passed.</summary>
    public bool IsOver => _isOver;

    /// <summary>Restarts the time with a new limit, unless the limit has passed.</summary>
    public void Restart(TimeSpan limit)
    {
        lock (_gate)
        {
            (_limit, _since) = (limit, _timeProvider.GetTimestamp());
            _timer.Change(limit, Timeout.InfiniteTimeSpan);
        }
    }

    public void Dispose()
    {
        _timer.Dispose();
        _ending.Dispose();
    }

    private void Look()
    {
        lock (_gate)
        {
            var left = _limit - _timeProvider.GetElapsedTime(_since);
            if (left > TimeSpan.Zero)
            {
                _timer.Change(left, Timeout.InfiniteTimeSpan);
                return;
            }
        }

        _isOver = true;
        _ = CancelAsync();
    }

    private async Task CancelAsync()
    {
        try
        {
            await _ending.CancelAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        catch (ObjectDisposedException)
        {
            // The limited operation has ended in the meantime.
        }
    }
}

/// <summary>The time limits that the server, a database or a user may have.</summary>
internal static class ServerTimeLimit
{
    /// <summary>Lifts them until the end of the transaction. <c>transaction_timeout</c> exists from PostgreSQL 17 on.</summary>
    public const string Lift = "select pg_catalog.set_config(name, '0', true) from pg_catalog.pg_settings where name in ('statement_timeout', 'lock_timeout', 'transaction_timeout')";
}

/// <summary>Converts a time limit to the whole seconds of an Npgsql command's timeout.</summary>
internal static class WholeSeconds
{
    // Rounded up, and at least 1, because 0 would mean no limit.
    public static int Of(TimeSpan limit) => Math.Max(1, (int)Math.Ceiling(limit.TotalSeconds));
}
