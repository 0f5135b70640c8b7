using BatchKit.TestServers.Postgres;

[assembly: AssemblyFixture(typeof(BatchKit.IntegrationTests.Postgres.PostgresFixture))]

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The server that all tests share who do not break it; started by the first that asks.</summary>
public sealed class PostgresFixture : IAsyncDisposable
{
    // Classes run side by side, each with a pool of its own.
    private const int MaxConnections = 400;

    private readonly Lock _gate = new();
    private Task<PostgresServer>? _server;

    public Task<PostgresServer> GetAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyMissing);
        lock (_gate)
            return _server ??= PostgresServer.ConnectOrStartAsync(new PostgresServerOptions { MaxConnections = MaxConnections });
    }

    /// <summary>A schema that no other test uses, not created yet.</summary>
    public async Task<TestSchema> NewSchemaAsync(string? name = null) => TestSchema.On(await GetAsync(), name);

    public async ValueTask DisposeAsync()
    {
        if (_server is { } server)
            await (await server).DisposeAsync();
    }
}
