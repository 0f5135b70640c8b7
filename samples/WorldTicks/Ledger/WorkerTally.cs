namespace WorldTicks.Ledger;

/// <summary>What one worker did for this world.</summary>
/// <param name="Done">Tasks.</param>
/// <param name="Retaken">Of these, those that another worker had before.</param>
internal readonly record struct WorkerTally(long Done, long Retaken);
