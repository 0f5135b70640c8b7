using BatchKit.TestServers.Postgres;

namespace BatchKit.Postgres.Tests.Failover;

/// <summary>A primary with a synchronous standby, to be killed and promoted; started by the first test that asks.</summary>
public sealed class PairFixture : IAsyncDisposable
{
    private PostgresPair? _pair;

    /// <summary>Both, running; tests of one class run one after the other.</summary>
    public async Task<PostgresPair> GetAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        _pair ??= await PostgresPair.StartAsync(isSynchronous: true);
        await _pair.MendAsync();
        return _pair;
    }

    public async ValueTask DisposeAsync()
    {
        if (_pair is not null)
            await _pair.DisposeAsync();
    }
}
