namespace BatchKit.TestServers;

/// <summary>Starts what must not be left behind when it does not start.</summary>
internal static class ServerStart
{
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
}
