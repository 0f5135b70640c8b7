namespace BatchKit.Transports;

/// <summary>The arithmetic of pauses between failed sends: they double up to a limit, each less a random part of up to a half.</summary>
/// <remarks>Without state: use it from any thread.</remarks>
/// <param name="firstDelay">The pause after the first failure.</param>
/// <param name="maxDelay">The longest pause.</param>
internal sealed class RetrySchedule(TimeSpan firstDelay, TimeSpan maxDelay)
{
    // 2^62 ticks are 14,000 years: above any limit, and below an overflow.
    private const int MaxDoublings = 62;

    /// <summary>The pause before the next attempt, in whole milliseconds.</summary>
    /// <param name="failures">The number of consecutive attempts that failed, from 1.</param>
    /// <param name="random">Where the random part comes from.</param>
    public TimeSpan DelayAfter(int failures, Random random)
    {
        ArgumentNullException.ThrowIfNull(random);
        var doublings = Math.Clamp(failures - 1, 0, MaxDoublings);
        var isBelowLimit = firstDelay.Ticks <= maxDelay.Ticks >> doublings;
        var ticks = isBelowLimit ? firstDelay.Ticks << doublings : maxDelay.Ticks;
        return WholeMilliseconds.Of(TimeSpan.FromTicks(ticks - random.NextInt64((ticks / 2) + 1)));
    }
}

/// <summary>Rounds the time that is left to a loop or a timer up to whole milliseconds.</summary>
/// <remarks>Task.Delay and timers round down: a wait below a millisecond would end at once, and the loop would spin until the time is over. With one free thread the loop would even hold up the clock that it waits for.</remarks>
internal static class WholeMilliseconds
{
    public static TimeSpan Of(TimeSpan left) => TimeSpan.FromMilliseconds(Math.Ceiling(left.TotalMilliseconds));
}
