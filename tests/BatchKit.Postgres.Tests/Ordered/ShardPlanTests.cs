using System.Text.RegularExpressions;
using BatchKit.Postgres.Ordered;
using BatchKit.Postgres.Receiving;
using Npgsql;
using static BatchKit.Postgres.Tests.Ordered.OrderedQueue;

namespace BatchKit.Postgres.Tests.Ordered;

public sealed partial class ShardPlanTests(PostgresFixture fixture)
{
    [Fact]
    public async Task Nothing_is_found_behind_ten_thousand_messages_of_a_key_that_waits_and_the_queue_is_quiet()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await AddBlockedAsync(queue);
        // The first exchange parks them.
        Assert.Empty((await queue.ExchangeAsync([])).Taken);
        var epoch = await queue.Schema.ScalarAsync<long>("select epoch from {s}.shards");

        var none = await queue.ExchangeAsync([]);
        var upkeep = await queue.UpkeepAsync();

        Assert.Empty(none.Taken);
        Assert.Equal((false, 0, 0), (upkeep.HasWork, upkeep.Returned, upkeep.Buried));
        Assert.Equal(epoch, await queue.Schema.ScalarAsync<long>("select epoch from {s}.shards"));
    }

    [Fact]
    public async Task Another_key_is_found_behind_ten_thousand_messages_of_one_that_waits()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync());
        await AddBlockedAsync(queue);
        await queue.AddAsync("other:found");

        var upkeep = await queue.UpkeepAsync();
        var claim = await queue.TakeAsync();

        Assert.True(upkeep.HasWork);
        Assert.Equal(["found"], Texts(claim));
    }

    [Fact]
    public async Task An_exchange_reads_tables_by_their_indexes_alone_and_touches_few_rows()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), shards: 64);
        // Cached as for an empty queue, for which a scan of everything would be right.
        await queue.ExchangeAsync([]);
        await queue.Schema.ExecuteAsync("""
            insert into {s}.messages (queue, shard, key, payload) select q.id, n % 64, 'key ' || n % 1000, '\x00' from {s}.queues q, generate_series(1, 20000) n
            """);
        var commands = new ShardCommands(queue.Tables, queue.Entry, new PostgresQueueReceiverOptions { Queue = "ordered", Shards = 64 }, "worker 1");
        var claim = (await queue.TakeAsync())!;
        var done = ShardSettlement.Of(claim.Batch, new OutcomePolicy(new PostgresQueueReceiverOptions()));
        claim.Batch[0].Retry("not yet");
        var mixed = ShardSettlement.Of(claim.Batch, new OutcomePolicy(new PostgresQueueReceiverOptions()));

        var plan = await ExplainAsync(
            queue, commands.Settle(claim, done), commands.Settle(claim, mixed), commands.Choose(claim), commands.Choose(held: null), commands.Take(token: 1), commands.Renew([claim]), commands.LockForUpkeep(claims: 10), commands.Upkeep(claims: 10));

        Assert.DoesNotContain("Seq Scan", plan, StringComparison.Ordinal);
        Assert.Contains("Index Scan using messages_ordered", plan, StringComparison.Ordinal);
        Assert.True(!ManyRows().IsMatch(plan), plan);
    }

    private static Task AddBlockedAsync(OrderedQueue queue) => queue.Schema.ExecuteAsync("""
        insert into {s}.messages (queue, shard, key, payload, attempts, due_at)
        select q.id, 0, 'key', '\x00', case when n = 1 then 1 else 0 end, case when n = 1 then now() + interval '1 h' end from {s}.queues q, generate_series(1, 10000) n
        """);

    private static async Task<string> ExplainAsync(OrderedQueue queue, params NpgsqlBatchCommand[] commands)
    {
        await using var connection = await queue.Schema.DataSource.OpenConnectionAsync();
        await using var transaction = await connection.BeginTransactionAsync();
        await using (var plan = new NpgsqlCommand(ClaimStatements.Plan, connection))
            await plan.ExecuteNonQueryAsync();
        var lines = new List<string>();
        foreach (var command in commands)
        {
            await using var explain = new NpgsqlCommand($"explain (analyze, costs off) {command.CommandText}", connection);
            foreach (NpgsqlParameter parameter in command.Parameters)
                explain.Parameters.Add(parameter.Clone());
            await using var reader = await explain.ExecuteReaderAsync();
            while (await reader.ReadAsync())
                lines.Add(reader.GetString(0));
        }

        return string.Join('\n', lines);
    }

    [GeneratedRegex(@"messages_\w+ on messages.*rows=\d{4,}", RegexOptions.None, 10_000)]
    private static partial Regex ManyRows();
}
