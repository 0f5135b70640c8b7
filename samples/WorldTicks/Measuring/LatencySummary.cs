namespace WorldTicks.Measuring;

/// <summary>How long tasks waited for a handler; null when none got there.</summary>
/// <param name="Median">Half took no longer.</param>
/// <param name="P99">99 of 100 took no longer.</param>
/// <param name="Longest">The longest.</param>
internal readonly record struct LatencySummary(TimeSpan? Median, TimeSpan? P99, TimeSpan? Longest);
