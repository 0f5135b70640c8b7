using BatchKit.Postgres;

namespace BatchKit.Tool.Json;

/// <summary>A queue's counts. The names are a contract with scripts.</summary>
internal sealed record CountsJson(string Queue, int Shards, long Ready, long Delayed, long Claimed, long Dead, double? OldestAgeSeconds)
{
    public static CountsJson From(QueueCounts counts) =>
        new(counts.Queue, counts.Shards, counts.Ready, counts.Delayed, counts.Claimed, counts.Dead, counts.OldestAge?.TotalSeconds);
}
