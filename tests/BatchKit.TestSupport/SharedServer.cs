namespace BatchKit.TestSupport;

/// <summary>A fixture with the server that tests share unless they break it; started by the first test that asks.</summary>
/// <param name="whyMissing">Says why the server is missing; null when it is there.</param>
/// <param name="start">Starts it.</param>
/// <param name="variable">The environment variable that names a running one.</param>
/// <param name="address">Its address, as the variable has it.</param>
public abstract class SharedServer<TServer>(Func<string?> whyMissing, Func<Task<TServer>> start, string variable, Func<TServer, string> address) : IAsyncDisposable
    where TServer : IAsyncDisposable
{
    private readonly Lock _gate = new();
    private Task<TServer>? _server;

    /// <summary>The running server; skips the test when it is missing.</summary>
    public Task<TServer> GetAsync()
    {
        RequiredServer.SkipWhen(whyMissing());
        lock (_gate)
            return _server ??= StartAsync();
    }

    public virtual async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        if (_server is { } server)
            await (await server).DisposeAsync();
    }

    // A test that runs in a process of its own shares it too.
    private async Task<TServer> StartAsync()
    {
        var server = await start();
        Environment.SetEnvironmentVariable(variable, address(server));
        return server;
    }
}
