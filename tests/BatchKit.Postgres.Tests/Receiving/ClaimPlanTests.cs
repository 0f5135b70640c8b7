using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class ClaimPlanTests(PostgresFixture fixture)
{
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task A_claim_that_was_planned_on_an_empty_table_is_still_an_index_scan_on_a_large_one(int retries)
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        var statements = new ClaimStatements(new Tables(scene.Schema.Name), batchSize: 100);
        await ClaimPlan.PrepareAsync(scene.Connection, statements.Claim);
        await ExplainAsync(scene, retries);

        await scene.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, payload) select {scene.Queue.Id} + number % 2, 'x' from generate_series(1, 50000) as number");
        await scene.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, attempts, due_at, payload) select {scene.Queue.Id}, 1, now(), 'x' from generate_series(1, 50000)");
        var planned = await ExplainAsync(scene, retries);
        await scene.Schema.ExecuteAsync("analyze {s}.messages");
        var replanned = await ExplainAsync(scene, retries);

        Assert.All([planned, replanned], static plan =>
        {
            Assert.Contains("Index Scan using messages_ready on messages", plan, StringComparison.Ordinal);
            Assert.Contains("Index Scan using messages_retry on messages", plan, StringComparison.Ordinal);
            Assert.Contains("Tid Scan on messages", plan, StringComparison.Ordinal);
            Assert.DoesNotContain("Seq Scan", plan, StringComparison.Ordinal);
            Assert.DoesNotContain("Bitmap", plan, StringComparison.Ordinal);
        });
    }

    [Fact]
    public async Task A_claim_is_not_compiled_however_large_its_table_seems()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        Assert.SkipUnless(await scene.Schema.ScalarAsync<bool>("select pg_jit_available()"), "This server compiles nothing.");
        await ExecuteAsync(scene, "set jit = on; set jit_above_cost = 0");
        await ClaimPlan.PrepareAsync(scene.Connection, new ClaimStatements(new Tables(scene.Schema.Name), batchSize: 100).Claim);

        var plan = await ClaimPlan.ExplainAsync(scene.Connection, scene.Queue.Id, options: "costs on");

        Assert.Contains(plan, static line => line.Contains("Index Scan using messages_ready", StringComparison.Ordinal));
        Assert.DoesNotContain("JIT:", plan);
    }

    [Fact]
    public async Task The_settings_of_a_claim_end_with_it()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertAsync("a");

        await scene.ClaimAsync();

        await using var command = new NpgsqlCommand("select array_agg(name) from pg_settings where source = 'session' and name = any($1)", scene.Connection)
        {
            Parameters = { new() { Value = (string[])["enable_seqscan", "enable_bitmapscan", "plan_cache_mode", "jit", "synchronous_commit"] } },
        };
        Assert.Equal(DBNull.Value, await command.ExecuteScalarAsync());
    }

    private static async Task ExecuteAsync(ClaimScene scene, string sql)
    {
        await using var command = new NpgsqlCommand(sql, scene.Connection);
        await command.ExecuteNonQueryAsync();
    }

    private static async Task<string> ExplainAsync(ClaimScene scene, int retries) => string.Join('\n', await ClaimPlan.ExplainAsync(scene.Connection, scene.Queue.Id, retries: retries));
}
