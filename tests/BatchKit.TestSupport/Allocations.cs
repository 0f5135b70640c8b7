namespace BatchKit.TestSupport;

/// <summary>Counts what code allocates.</summary>
public static class Allocations
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(20);

    /// <summary>How many bytes it allocates on this thread when it runs again, at the least; it runs until that is nothing, or for 20 s.</summary>
    /// <remarks>
    /// At first pools fill, and the runtime's own generic code boxes (its search in texts, for one) until it is compiled anew, which waits for as long as other tests keep the compiler busy.
    /// </remarks>
    public static long Least(Action rounds)
    {
        ArgumentNullException.ThrowIfNull(rounds);
        var least = long.MaxValue;
        for (var until = Environment.TickCount64 + (long)Limit.TotalMilliseconds; least != 0 && Environment.TickCount64 < until;)
        {
            var before = GC.GetAllocatedBytesForCurrentThread();
            rounds();
            least = Math.Min(least, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        return least;
    }
}
