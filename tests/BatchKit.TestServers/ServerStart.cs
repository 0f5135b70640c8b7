using BatchKit.TestServers.Processes;

namespace BatchKit.TestServers;

/// <summary>Starts what must not be left behind when it does not start.</summary>
internal static class ServerStart
{
    // Continuous integration shares its cores, and a killed server reads its log first.
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(3);
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(10);

    /// <summary>Starts it, and returns it; disposes it when the start fails.</summary>
    public static async Task<TServer> OrDisposeAsync<TServer>(TServer server, Func<TServer, Task> start)
        where TServer : IAsyncDisposable
    {
        try
        {
            await start(server);
        }
        catch
        {
            await server.DisposeAsync();
            throw;
        }

        return server;
    }

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

/// <summary>An installed server did not start: the message has its last output.</summary>
public sealed class ServerStartException(string message, Exception? cause = null) : Exception(message, cause);
