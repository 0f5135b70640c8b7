using BatchKit.TestServers.Postgres;

[assembly: AssemblyFixture(typeof(BatchKit.Postgres.Tests.PostgresFixture))]

namespace BatchKit.Postgres.Tests;

/// <summary>The server that the tests of one project share unless they break it.</summary>
public sealed class PostgresFixture()
    : SharedServer<PostgresServer>(
        static () => PostgresServer.WhyMissing, static () => PostgresServer.ConnectOrStartAsync(new PostgresServerOptions { MaxConnections = MaxConnections }), PostgresServer.AddressVariable,
        static server => server.ConnectionString)
{
    // Classes run side by side, each with a pool of its own.
    private const int MaxConnections = 400;

    private readonly Lock _gate = new();
    private Task<PgBouncerServer>? _pooler;

    /// <summary>PgBouncer in transaction mode in front of the server.</summary>
    public async Task<PgBouncerServer> GetPoolerAsync()
    {
        // Optional also where servers are required: what runs through it runs without it too.
        Assert.SkipWhen(PgBouncerServer.WhyMissing is not null, PgBouncerServer.WhyMissing ?? string.Empty);
        var server = await GetAsync();
        Task<PgBouncerServer> pooler;
        lock (_gate)
            pooler = _pooler ??= PgBouncerServer.StartAsync(server);
        return await pooler;
    }

    /// <summary>A schema that no other test uses, not created yet.</summary>
    public async Task<TestSchema> NewSchemaAsync(string? name = null) => TestSchema.On(await GetAsync(), name);

    /// <summary>The same, with its tables.</summary>
    public async Task<TestSchema> NewTablesAsync()
    {
        var schema = await NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        return schema;
    }

    public override async ValueTask DisposeAsync()
    {
        if (_pooler is { } pooler)
            await (await pooler).DisposeAsync();
        await base.DisposeAsync();
    }
}
