using System.Numerics;

namespace BatchKit.Benchmarks.Measuring;

/// <summary>Counts times in nanoseconds, to within 3 %.</summary>
internal sealed class LatencyHistogram
{
    private const int StepBits = 5;
    private const int Steps = 1 << StepBits;

    private readonly long[] _counts = new long[64 * Steps];

    public long Count { get; private set; }

    public void Add(long nanoseconds, long count = 1)
    {
        _counts[IndexOf(Math.Max(nanoseconds, 1))] += count;
        Count += count;
    }

    /// <summary>The time that a share of all stays below.</summary>
    public long At(double share)
    {
        var rank = Math.Max(1, (long)Math.Ceiling(share * Count));
        for (var index = 0; index < _counts.Length; index++)
        {
            rank -= _counts[index];
            if (rank <= 0)
                return Count == 0 ? 0 : EndOf(index);
        }

        return 0;
    }

    public void Clear()
    {
        Array.Clear(_counts);
        Count = 0;
    }

    private static int IndexOf(long value)
    {
        var power = BitOperations.Log2((ulong)value);
        var step = power <= StepBits ? value << (StepBits - power) : value >> (power - StepBits);
        return (power * Steps) + (int)(step & (Steps - 1));
    }

    private static long EndOf(int index)
    {
        var (power, step) = (index / Steps, Steps + (index % Steps) + 1);
        return power <= StepBits ? step >> (StepBits - power) : (long)step << (power - StepBits);
    }
}
