namespace BatchKit.TestServers.Processes;

/// <summary>Waits for a server that was just started.</summary>
internal static class ServerStart
{
    // Continuous integration shares its cores, and a killed server reads its log first.
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(3);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(10);

    /// <summary>Completes when the server is ready.</summary>
    /// <exception cref="ServerStartException">It ended before that, or took too long; with what it wrote.</exception>
    public static async Task WaitUntilAsync(this ServerProcess process, Func<Task<bool>> isReady, string name)
    {
        using var deadline = new CancellationTokenSource(Limit);
        while (!await isReady())
        {
            if (process.HasExited)
                throw new ServerStartException($"{name} ended with exit code {process.ExitCode} before it was ready.{Environment.NewLine}{await process.ReadLastWordsAsync()}");
            if (deadline.IsCancellationRequested)
                throw new ServerStartException($"{name} did not start within {Limit}.{Environment.NewLine}{process.Output}");
            await Task.Delay(Pause);
        }
    }
}
