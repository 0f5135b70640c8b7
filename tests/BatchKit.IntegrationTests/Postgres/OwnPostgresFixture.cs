using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>A server of one test class, to be killed, restarted and configured badly; started by the first test that asks.</summary>
public sealed class OwnPostgresFixture : IAsyncDisposable
{
    private PostgresServer? _server;

    /// <summary>The running server; tests of one class run one after the other. One that a failed test left stopped is started again, so that it fails no other.</summary>
    public async Task<PostgresServer> GetAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        _server ??= await PostgresServer.StartOwnAsync();
        if (!_server.IsRunning)
            await _server.StartAsync();
        return _server;
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
            await _server.DisposeAsync();
    }
}
