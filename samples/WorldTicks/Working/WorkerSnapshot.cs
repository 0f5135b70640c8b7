namespace WorldTicks.Working;

/// <summary>A worker's counters since its start, read at one moment.</summary>
internal sealed record WorkerSnapshot
{
    public long Done { get; init; }

    public long Retaken { get; init; }

    public long Batches { get; init; }

    /// <summary>The number of tasks in all batches.</summary>
    public long Messages { get; init; }

    public int Handling { get; init; }

    public long Retried { get; init; }

    public long Buried { get; init; }

    public long GivenBack { get; init; }

    public long Refused { get; init; }

    /// <summary>Why the worker receives nothing now; null when it receives.</summary>
    public string? Fault { get; init; }
}
