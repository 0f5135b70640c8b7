namespace BatchKit.Sessions;

/// <summary>Keeps all histories together within their limit. Those with the most give up their oldest messages, so that a few that take everything cost the others nothing. Thread-safe.</summary>
internal sealed class TotalHistoryLimit(SessionOptions options, SessionTable table, SessionCounters counters)
{
    // So much is free afterwards that many sends share the cost of a look at all sessions.
    private const int FreedPart = 8;

    // The largest are cut to a lower level in steps of this part of it.
    private const int LevelPart = 4;

    private int _isTrimming;

    private long Bytes => SessionCounters.Read(ref counters.Bytes);

    /// <summary>Applies the limit, unless another thread is doing so. Call it behind what was forwarded.</summary>
    public void Apply()
    {
        if (Bytes <= options.MaxTotalBytes || Interlocked.Exchange(ref _isTrimming, 1) != 0)
            return;
        try
        {
            Trim(table.All);
        }
        finally
        {
            Volatile.Write(ref _isTrimming, 0);
        }
    }

    private void Trim(Session[] sessions)
    {
        var most = options.MaxTotalBytes - (options.MaxTotalBytes / FreedPart);
        var level = sessions.Max(static session => (long?)session.HistoryBytes) ?? 0;
        while (level > 0 && Bytes > most)
        {
            level -= Math.Max(1, level / LevelPart);
            foreach (var session in sessions)
                session.Trim(level);
        }
    }
}
