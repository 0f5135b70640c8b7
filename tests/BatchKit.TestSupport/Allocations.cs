namespace BatchKit.TestSupport;

/// <summary>Counts what code allocates.</summary>
public static class Allocations
{
    /// <summary>The fewest bytes that one run allocates on this thread. Runs the code until that is zero, or up to the deadline of a test.</summary>
    /// <remarks>
    /// In the first runs pools fill, and the runtime's own generic code (text search, for one) boxes until it is recompiled, which other tests delay while they keep the compiler busy.
    /// </remarks>
    public static long Least(Action rounds)
    {
        ArgumentNullException.ThrowIfNull(rounds);
        var least = long.MaxValue;
        for (var until = Environment.TickCount64 + (long)Deadline.Time.TotalMilliseconds; least != 0 && Environment.TickCount64 < until;)
        {
            var before = GC.GetAllocatedBytesForCurrentThread();
            rounds();
            least = Math.Min(least, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        return least;
    }
}
