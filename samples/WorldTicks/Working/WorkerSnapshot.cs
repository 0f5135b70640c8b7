namespace WorldTicks.Working;

/// <summary>A worker's counters at one moment, since its start.</summary>
internal sealed record WorkerSnapshot
{
    public long Done { get; init; }

    public long Retaken { get; init; }

    public long Batches { get; init; }

    /// <summary>What was in the batches.</summary>
    public long Messages { get; init; }

    public int Handling { get; init; }

    public long Retried { get; init; }

    public long Buried { get; init; }

    public long GivenBack { get; init; }

    public long Refused { get; init; }

    /// <summary>Why nothing is received now; null while it is.</summary>
    public string? Fault { get; init; }
}
