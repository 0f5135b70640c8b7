using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Receiving;

/// <summary>Tells that messages of a queue were moved to the dead table: the first at once, later ones together once a minute; and to the health check, for some minutes. Thread-safe.</summary>
internal sealed class DeadReport(string queue, TimeProvider timeProvider, ILogger logger)
{
    private static readonly TimeSpan LogPeriod = TimeSpan.FromMinutes(1);
    private static readonly TimeSpan HealthPeriod = TimeSpan.FromMinutes(5);

    // Guards the fields below.
    private readonly Lock _lock = new();
    private string _reason = string.Empty;
    private long _untold;
    private long _recent;
    private long? _diedAt;
    private long? _toldAt;

    /// <summary>What the health check says; null when none died lately. It has no reason, which may contain what a user wrote.</summary>
    public string? Degradation
    {
        get
        {
            lock (_lock)
                return IsRecent() ? $"{_recent} messages were moved to the dead table, the last one less than {HealthPeriod.TotalMinutes:0} minutes ago: see log 2637, and list them with 'batchkit queue dead'." : null;
        }
    }

    /// <summary>Messages died.</summary>
    /// <param name="count">How many.</param>
    /// <param name="reason">Why the last one did.</param>
    public void Died(long count, string? reason)
    {
        lock (_lock)
        {
            _recent = IsRecent() ? _recent + count : count;
            _untold += count;
            _diedAt = timeProvider.GetTimestamp();
            _reason = ErrorText.Line(reason);
        }

        Tell();
    }

    /// <summary>Logs what is due: upkeep calls it, so that the last ones are told too.</summary>
    /// <param name="isLast">True at the end of a session, when no one may call it later.</param>
    public void Tell(bool isLast = false)
    {
        long count;
        string reason;
        lock (_lock)
        {
            if (_untold == 0 || (!isLast && _toldAt is { } told && timeProvider.GetElapsedTime(told) < LogPeriod))
                return;
            (count, reason, _untold, _toldAt) = (_untold, _reason, 0, timeProvider.GetTimestamp());
        }

        Log.MessagesDied(logger, count, queue, reason);
    }

    // Called under the lock.
    private bool IsRecent() => _diedAt is { } diedAt && timeProvider.GetElapsedTime(diedAt) < HealthPeriod;
}
