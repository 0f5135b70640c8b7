using System.Numerics;

namespace Shared;

/// <summary>Counts times from a microsecond up to more than an hour, each to within 3 %. One thread records; any thread may copy.</summary>
internal sealed class LatencyHistogram
{
    // The number of steps in each power of two.
    private const int Steps = 32;
    private const int StepBits = 5;
    private const int Powers = 28;

    private readonly long[] _counts = new long[Steps * Powers];

    public void Record(long microseconds)
    {
        var index = IndexOf(microseconds);
        Volatile.Write(ref _counts[index], _counts[index] + 1);
    }

    public long[] Copy() => [.. _counts];

    /// <summary>Returns what was recorded between two copies; null for the older copy means from the start.</summary>
    public static LatencySummary Summarise(long[] newer, long[]? older)
    {
        var counts = older is null ? newer : [.. newer.Zip(older, static (after, before) => after - before)];
        return new LatencySummary(Find(counts, 0.5), Find(counts, 0.99), Find(counts, 1));
    }

    private static TimeSpan? Find(long[] counts, double share)
    {
        var wanted = (long)Math.Ceiling(counts.Sum() * share);
        if (wanted == 0)
            return null;
        var index = 0;
        for (var seen = counts[0]; seen < wanted; seen += counts[index])
            index++;
        return TimeSpan.FromMicroseconds(ValueOf(index));
    }

    private static int IndexOf(long microseconds)
    {
        if (microseconds < Steps)
            return (int)Math.Max(0, microseconds);
        var power = BitOperations.Log2((ulong)microseconds) - StepBits;
        return Math.Min((Steps * power) + (int)(microseconds >> power), (Steps * Powers) - 1);
    }

    private static long ValueOf(int index)
    {
        if (index < Steps)
            return index;
        var power = (index / Steps) - 1;
        return (long)(index - (Steps * power)) << power;
    }
}

/// <summary>How long messages took; null when none arrived.</summary>
/// <param name="Median">The time that half of them did not exceed.</param>
/// <param name="P99">The time that 99 of 100 did not exceed.</param>
/// <param name="Longest">The longest time.</param>
internal readonly record struct LatencySummary(TimeSpan? Median, TimeSpan? P99, TimeSpan? Longest);
