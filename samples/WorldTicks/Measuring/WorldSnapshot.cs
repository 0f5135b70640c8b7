using WorldTicks.Ledger;

namespace WorldTicks.Measuring;

/// <summary>All counters of a world at one moment, since its start.</summary>
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

    /// <summary>Why the server's figures are old, in a sentence; null when they are not.</summary>
    public string? Fault { get; init; }

    /// <summary>Where the tasks were when the server was last asked.</summary>
    public TaskBalance Balance { get; init; } = TaskBalance.None;

    /// <summary>Tasks that wait, or are held by a worker.</summary>
    public long Open => Ready + Delayed + Claimed;
}
