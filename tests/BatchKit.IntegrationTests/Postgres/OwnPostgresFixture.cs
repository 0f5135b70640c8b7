using BatchKit.TestServers.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>A server of one test class, to be killed, restarted and configured badly; started by the first test that asks.</summary>
public sealed class OwnPostgresFixture : IAsyncDisposable
{
    private PostgresServer? _server;

    /// <summary>The running server; tests of one class run one after the other.</summary>
    public async Task<PostgresServer> GetAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        return _server ??= await PostgresServer.StartOwnAsync();
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
            await _server.DisposeAsync();
    }
}
