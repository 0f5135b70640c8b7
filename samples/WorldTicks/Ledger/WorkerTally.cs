namespace WorldTicks.Ledger;

/// <summary>The tasks of this world that one worker has run.</summary>
/// <param name="Done">The number of tasks.</param>
/// <param name="Retaken">The number of these that another worker had held before.</param>
internal readonly record struct WorkerTally(long Done, long Retaken);
