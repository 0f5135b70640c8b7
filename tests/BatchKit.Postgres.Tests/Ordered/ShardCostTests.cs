using System.Globalization;
using System.Text.RegularExpressions;
using BatchKit.Postgres.Ordered;
using BatchKit.Postgres.Receiving;
using Npgsql;
using static BatchKit.Postgres.Tests.Ordered.OrderedQueue;

namespace BatchKit.Postgres.Tests.Ordered;

/// <summary>An exchange reads what it takes, however much waits: delayed, blocked by a delayed message, with long keys.</summary>
public sealed partial class ShardCostTests(PostgresFixture fixture)
{
    private const int MostBuffers = 100;

    [Theory]
    [InlineData("nothing", 0)]
    [InlineData("delayed", 100_000)]
    [InlineData("blocked", 100_000)]
    [InlineData("keys of 65,000 bytes", 1000)]
    [Trait("Lane", "night: many rows wait")]
    public Task An_exchange_of_ten_reads_few_buffers_whatever_waits(string what, int count) => AssertCostAsync(what, count);

    [Theory]
    [InlineData("delayed")]
    [InlineData("blocked")]
    [Trait("Lane", "night: a million rows take a minute")]
    public Task An_exchange_of_ten_reads_few_buffers_with_a_million_that_wait(string what) => AssertCostAsync(what, 1_000_000);

    [Fact]
    public async Task What_is_behind_a_blocked_key_is_found_and_what_blocked_is_never_looked_at_again()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 10);
        await queue.AddAsync("a:failed");
        await queue.Schema.ExecuteAsync("update {s}.messages set due_at = now() + interval '1 h', attempts = 1");
        await AddAsync(queue, "null", "'a'", 25_000);
        await queue.AddAsync([.. Enumerable.Range(0, 10).Select(n => $"b{n}:{n}")]);

        var found = await queue.TakeAsync();
        await VacuumAsync(queue);
        var (reads, _) = await MeasureAsync(queue, found!);

        Assert.Equal(10, found!.Batch.Count);
        Assert.InRange(reads, 1, MostBuffers);
        Assert.Equal(25_000L, await queue.Schema.ScalarAsync<long>("select count(*) from {s}.messages where due_at = 'infinity'"));
    }

    [Theory]
    [InlineData(100)]
    [InlineData(5000)]
    public async Task What_is_parked_behind_a_message_follows_it_in_order_when_it_is_due(int parked)
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 1000);
        await queue.AddAsync("a:0");
        await queue.Schema.ExecuteAsync("update {s}.messages set due_at = now() + interval '1 h'");
        await AddAsync(queue, "null", "'a'", parked);
        Assert.Null(await queue.TakeAsync());

        var texts = new List<string>();
        await queue.Schema.ExecuteAsync("update {s}.messages set due_at = now() where due_at < 'infinity'");
        while (texts.Count <= parked)
        {
            await Until.TrueAsync(async () => (await queue.UpkeepAsync()).HasWork);
            for (var claim = await queue.TakeAsync(); claim is not null; claim = await queue.SettleAndTakeAsync(claim))
                texts.AddRange(Texts(claim));
        }

        Assert.Equal(Enumerable.Range(0, parked + 1).Select(n => n.ToString(CultureInfo.InvariantCulture)), texts);
        Assert.Empty(await queue.StoredAsync());
    }

    [Fact]
    public async Task A_key_that_fails_again_makes_few_of_its_parked_messages_ready_each_time()
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 10);
        await queue.AddAsync("a:0");
        await AddAsync(queue, "null", "'a'", 20_000);
        var claim = (await queue.TakeAsync())!;
        foreach (var message in claim.Batch)
            message.Retry("It fails.", TimeSpan.FromHours(1));
        await queue.ExchangeAsync([claim]);
        await queue.Schema.ExecuteAsync("update {s}.messages set due_at = now() where due_at < 'infinity'");

        await queue.UpkeepAsync();

        Assert.Equal(1000L, await queue.Schema.ScalarAsync<long>("select count(*) from {s}.messages where due_at is null"));
        Assert.Equal(1L, await queue.Schema.ScalarAsync<long>("select count(*) from {s}.messages where due_at is not null and due_at < 'infinity'"));
        Assert.Equal(["0"], Texts(await queue.TakeAsync()));
    }

    private async Task AssertCostAsync(string what, int count)
    {
        await using var queue = await OpenAsync(await fixture.GetAsync(), configure: options => options.BatchSize = 10);
        if (what == "delayed")
            await AddAsync(queue, "now() + interval '1 h'", "'key ' || n", count);
        else if (what == "blocked")
            await AddAsync(queue, "case when n = 1 then now() + interval '1 h' else 'infinity' end", "'key'", count);
        else if (count > 0)
            await AddAsync(queue, "now() + interval '1 h'", "(select string_agg(md5(n || ' ' || part), '') from generate_series(1, 2031) part)", count);
        await queue.Schema.ExecuteAsync("analyze {s}.messages");
        for (var batch = 0; batch < 3; batch++)
            await queue.AddAsync([.. Enumerable.Range(0, 10).Select(n => $"ready {n}:{n}")]);
        var claim = (await queue.TakeAsync())!;

        var (reads, plan) = await MeasureAsync(queue, claim);
        var upkeep = await queue.UpkeepAsync();

        Assert.Equal(10, claim.Batch.Count);
        TestContext.Current.TestOutputHelper!.WriteLine($"{reads} buffers");
        Assert.True(reads <= MostBuffers, $"{reads} buffers:\n{plan}");
        Assert.Equal((0, 0), (upkeep.Returned, upkeep.Buried));
    }

    private static Task AddAsync(OrderedQueue queue, string dueAt, string key, int count) => queue.Schema.ExecuteAsync(
        $"insert into {{s}}.messages (queue, shard, key, payload, due_at) select q.id, 0, {key}, n::text::bytea, {dueAt} from {{s}}.queues q, generate_series(1, {count}) n");

    // As autovacuum does: the index still has the entries of what was parked. They stay while a transaction of another test is older.
    private static async Task VacuumAsync(OrderedQueue queue)
    {
        var parkedBy = await queue.Schema.ScalarAsync<string>("select pg_current_xact_id()::xid::text");
        await Until.TrueAsync(() => queue.Schema.ScalarAsync<bool>(
            $"select not exists (select from pg_stat_activity where backend_xmin is not null and pid <> pg_backend_pid() and age(backend_xmin) >= age('{parkedBy}'::xid))"));
        await queue.Schema.ExecuteAsync("vacuum {s}.messages");
    }

    // The buffers of all statements of an exchange that settles a batch of ten and takes the next.
    private static async Task<(int Buffers, string Plan)> MeasureAsync(OrderedQueue queue, Claim held)
    {
        var commands = new ShardCommands(queue.Tables, queue.Entry, new PostgresQueueReceiverOptions { Queue = "ordered", Shards = 1, BatchSize = 10 }, "worker 1");
        var settlement = ShardSettlement.Of(held.Batch, new OutcomePolicy(new PostgresQueueReceiverOptions()));
        await using var connection = await queue.Schema.DataSource.OpenConnectionAsync();
        // The first time in a session also reads the catalogs.
        await ExplainAsync(connection, commands, held, settlement);
        var plan = await ExplainAsync(connection, commands, held, settlement);
        return (plan.Sum(static statement => TopBuffers().Matches(statement).Take(1).Sum(BuffersOf)), string.Join('\n', plan));
    }

    private static async Task<List<string>> ExplainAsync(NpgsqlConnection connection, ShardCommands commands, Claim held, ShardSettlement settlement)
    {
        await using var transaction = await connection.BeginTransactionAsync();
        await using (var plan = new NpgsqlCommand(ClaimStatements.Plan, connection))
            await plan.ExecuteNonQueryAsync();
        var plans = new List<string>();
        foreach (var command in new[] { commands.Settle(held, settlement), commands.Choose(held), commands.Take(token: 1) })
        {
            await using var explain = new NpgsqlCommand($"explain (analyze, buffers, costs off, timing off) {command.CommandText}", connection);
            foreach (NpgsqlParameter parameter in command.Parameters)
                explain.Parameters.Add(parameter.Clone());
            await using var reader = await explain.ExecuteReaderAsync();
            var lines = new List<string>();
            while (await reader.ReadAsync())
                lines.Add(reader.GetString(0));
            plans.Add(string.Join('\n', lines));
        }

        await transaction.RollbackAsync();
        return plans;
    }

    private static int BuffersOf(Match match) =>
        new[] { "hit", "read" }.Sum(name => match.Groups[name] is { Success: true } group ? int.Parse(group.Value, CultureInfo.InvariantCulture) : 0);

    // The first line is the whole statement's.
    [GeneratedRegex(@"Buffers: shared(?: hit=(?<hit>\d+))?(?: read=(?<read>\d+))?", RegexOptions.None, 10_000)]
    private static partial Regex TopBuffers();
}
