namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>One way to do something with many tasks: enqueue them, run them, or both.</summary>
internal interface IRhythmWay : IAsyncDisposable
{
    /// <summary>Empties its tables, and fills them as far as the run needs it. Not timed.</summary>
    Task PrepareAsync(int tasks);

    /// <summary>Does it, and says how long that took until the last was committed.</summary>
    Task<TimeSpan> RunAsync(int tasks);

    /// <summary>Looks whether every task is where it should be, once. Not timed.</summary>
    /// <exception cref="InvalidOperationException">One is missing, or there twice.</exception>
    Task CheckAsync(int tasks);
}
