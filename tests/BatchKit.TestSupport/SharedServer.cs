namespace BatchKit.TestSupport;

/// <summary>A fixture with the server that tests share unless they break it; started by the first test that asks.</summary>
/// <param name="whyMissing">Says why the server is missing; null when it is there.</param>
/// <param name="start">Starts it.</param>
public abstract class SharedServer<TServer>(Func<string?> whyMissing, Func<Task<TServer>> start) : IAsyncDisposable
    where TServer : IAsyncDisposable
{
    private readonly Lock _gate = new();
    private Task<TServer>? _server;

    /// <summary>The running server; skips the test when it is missing.</summary>
    public Task<TServer> GetAsync()
    {
        RequiredServer.SkipWhen(whyMissing());
        lock (_gate)
            return _server ??= start();
    }

    public virtual async ValueTask DisposeAsync()
    {
        GC.SuppressFinalize(this);
        if (_server is { } server)
            await (await server).DisposeAsync();
    }
}
