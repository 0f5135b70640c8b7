using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>A queue works through PgBouncer in transaction mode with the documented settings, and finds work by LISTEN over a connection of its own.</summary>
public sealed class PooledReceiverTests(PostgresFixture postgres)
{
    [Theory]
    [InlineData(0, 0)]
    [InlineData(0, 200)]
    [InlineData(4, 0)]
    public async Task Everything_is_handled_once_and_found_by_notifications(int shards, int prefetch)
    {
        await using var schema = await postgres.NewSchemaAsync();
        await using var dataSource = NpgsqlDataSource.Create((await postgres.GetPoolerAsync()).ConnectionString);
        var handler = new KeepingHandler();
        await using var receiver = new PostgresQueueReceiver(dataSource, Options(schema, shards, prefetch), handler);
        await using var transport = new PostgresQueueTransport(dataSource, new PostgresOptions { Schema = schema.Name, Shards = shards, UsePreparedStatements = false });
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(async () => await schema.ScalarAsync<long>("select count(*) from pg_stat_activity where query ilike 'listen %'") > 0);

        await using (var output = new OutputBuffer(transport))
        {
            for (var round = 0; round < 50; round++)
            {
                await using var scope = output.BeginBufferingScope(OutputHandle.Named("tasks"));
                foreach (var line in Some.Lines(20, start: 20 * round))
                    output.Write(OutputHandle.Named("tasks"), Some.Bytes(line));
            }
        }

        await handler.WaitForAsync(1000);
        await Until.TrueAsync(async () => await schema.ScalarAsync<long>("select (select count(*) from {s}.messages) + (select count(*) from {s}.claims)") == 0);
        Assert.Equal(Some.Lines(1000).Order(StringComparer.Ordinal), handler.Texts.Order(StringComparer.Ordinal));
        Assert.Null(receiver.Fault);
    }

    private static PostgresQueueReceiverOptions Options(TestSchema schema, int shards, int prefetch) => new()
    {
        Schema = schema.Name,
        Queue = "tasks",
        Shards = shards,
        Prefetch = prefetch,
        Concurrency = 4,
        // Longer than the test, so that only notifications find work.
        PollInterval = TimeSpan.FromMinutes(5),
        UsePreparedStatements = false,
        ListenConnectionString = schema.DataSource.ConnectionString,
    };
}
