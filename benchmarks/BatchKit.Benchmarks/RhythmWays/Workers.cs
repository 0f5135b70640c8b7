using System.Diagnostics;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>So many loops beside one another, as the workers of a queue are.</summary>
internal static class Workers
{
    public const int Count = 10;

    /// <summary>Runs them, and says how long the last took.</summary>
    public static async Task<TimeSpan> RunAsync(int workers, Func<int, Task> work)
    {
        var began = Stopwatch.GetTimestamp();
        await Task.WhenAll(Enumerable.Range(0, workers).Select(worker => Task.Run(() => work(worker))));
        return Stopwatch.GetElapsedTime(began);
    }

    /// <summary>A worker's share of numbers from 0.</summary>
    public static (int First, int End) ShareOf(int worker, int tasks) => ((int)((long)tasks * worker / Count), (int)((long)tasks * (worker + 1) / Count));
}
