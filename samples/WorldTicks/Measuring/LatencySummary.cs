namespace WorldTicks.Measuring;

/// <summary>How long tasks waited for a handler; null when none was handled.</summary>
/// <param name="Median">The time that half of them did not exceed.</param>
/// <param name="P99">The time that 99 of 100 did not exceed.</param>
/// <param name="Longest">The longest time.</param>
internal readonly record struct LatencySummary(TimeSpan? Median, TimeSpan? P99, TimeSpan? Longest);
