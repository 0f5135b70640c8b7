namespace SensorHub.Measuring;

/// <summary>How long changes took from the game's loop to the subscriber; null when none arrived.</summary>
/// <param name="Median">Half took no longer.</param>
/// <param name="P99">99 of 100 took no longer.</param>
/// <param name="Longest">The longest.</param>
internal readonly record struct LatencySummary(TimeSpan? Median, TimeSpan? P99, TimeSpan? Longest);
