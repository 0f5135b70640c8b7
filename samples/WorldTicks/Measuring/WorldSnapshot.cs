using WorldTicks.Ledger;

namespace WorldTicks.Measuring;

/// <summary>All counters of a world since its start, read at one moment.</summary>
internal sealed record WorldSnapshot
{
    /// <summary>When the world's own counters were read.</summary>
    public required TimeSpan At { get; init; }

    public long Ticks { get; init; }

    public long Tasks { get; init; }

    public long Shouts { get; init; }

    public long Poisoned { get; init; }

    public long Buffered { get; init; }

    public long Unsent { get; init; }

    public long Sends { get; init; }

    public long Ready { get; init; }

    public long Delayed { get; init; }

    public long Claimed { get; init; }

    public long Dead { get; init; }

    public TimeSpan? OldestAge { get; init; }

    public long Done { get; init; }

    public long Doubled { get; init; }

    public long Retaken { get; init; }

    public long OutOfOrder { get; init; }

    public long[] Latencies { get; init; } = [];

    public IReadOnlyList<WorkerRow> Workers { get; init; } = [];

    public IReadOnlyDictionary<string, WorkerTally> ByWorker { get; init; } = new Dictionary<string, WorkerTally>(StringComparer.Ordinal);

    /// <summary>Why the figures from the server are out of date, in one sentence; null when they are current.</summary>
    public string? Fault { get; init; }

    /// <summary>Where the tasks were at the last answer of the server.</summary>
    public TaskBalance Balance { get; init; } = TaskBalance.None;

    /// <summary>The number of tasks that wait or that a worker holds.</summary>
    public long Open => Ready + Delayed + Claimed;
}
