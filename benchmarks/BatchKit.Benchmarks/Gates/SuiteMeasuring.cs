namespace BatchKit.Benchmarks.Gates;

/// <summary>Measures a suite, and ends it at Ctrl-C and SIGTERM.</summary>
internal static class SuiteMeasuring
{
    // What BenchmarkDotNet runs can't be ended; the program's end stops what it started.
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(10);

    /// <inheritdoc cref="ISuiteRunner.Measure"/>
    /// <exception cref="OperationCanceledException">It was interrupted; the suite has ended its processes, or had some seconds to do so.</exception>
    public static async Task<SuiteReadings> RunAsync(ISuiteRunner runner, GateSuite suite, bool everything)
    {
        var measuring = Task.Run(() => runner.Measure(suite, everything));
        try
        {
            return await measuring.WaitAsync(Interruption.Token);
        }
        catch (Exception) when (Interruption.Token.IsCancellationRequested)
        {
            await Task.WhenAny(measuring, Task.Delay(EndLimit));
            throw new OperationCanceledException(Interruption.Token);
        }
    }
}
