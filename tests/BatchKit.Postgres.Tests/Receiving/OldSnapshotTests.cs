using System.Diagnostics;
using System.Globalization;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>A transaction that stays open keeps PostgreSQL from clearing away what was completed since.</summary>
[Trait("Lane", "slow: a transaction is held for seconds")]
public sealed class OldSnapshotTests(ITestOutputHelper report)
{
    private const string RowsVariable = "BATCHKIT_TEST_ROWS";

    // 1,000,000 in a long run.
    private static readonly int Rows = int.Parse(Environment.GetEnvironmentVariable(RowsVariable) ?? "100000", CultureInfo.InvariantCulture);

    [Fact]
    public async Task Claims_stay_index_scans_and_read_past_what_an_old_snapshot_keeps()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        await using var server = await PostgresServer.StartOwnAsync();
        await using var schema = TestSchema.On(server, "batchkit");
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource);
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('tasks')");

        report.WriteLine($"without a snapshot: {await DrainAsync(schema):N0} messages a second");
        await using var reader = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var snapshot = await reader.BeginTransactionAsync(System.Data.IsolationLevel.RepeatableRead, TestContext.Current.CancellationToken);
        await using (var look = new NpgsqlCommand("select count(*) from batchkit.messages", reader))
            await look.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);
        report.WriteLine($"with one: {await DrainAsync(schema):N0}");
        report.WriteLine($"with one, behind {Rows:N0} completed rows: {await DrainAsync(schema):N0}");

        await schema.ExecuteAsync("insert into {s}.messages (queue, payload) select 1, 'x' from generate_series(1, 200)");
        var first = await schema.ScalarAsync<long>("select min(id) from {s}.messages");
        var (planFromBeginning, readFromBeginning) = await ExplainAsync(schema, floor: null);
        var (planFromFloor, readFromFloor) = await ExplainAsync(schema, first);
        report.WriteLine($"a claim reads {readFromBeginning:N0} pages from the beginning, {readFromFloor:N0} from its floor");

        Assert.All([planFromBeginning, planFromFloor], static plan =>
        {
            Assert.Contains("Index Scan using messages_ready on messages", plan, StringComparison.Ordinal);
            Assert.DoesNotContain("Seq Scan", plan, StringComparison.Ordinal);
        });
        // From the beginning each page of completed rows is read, some 50 rows a page; from the floor what the claim takes, which is a few pages for each of a hundred rows that it moves.
        Assert.True(readFromBeginning > Rows / 50, $"The snapshot keeps nothing: {readFromBeginning} pages.");
        Assert.InRange(readFromFloor, 1, 2000);
    }

    // Messages a second. All of them are waiting when the receiver starts.
    private static async Task<double> DrainAsync(TestSchema schema)
    {
        await schema.ExecuteAsync($"insert into {{s}}.messages (queue, payload) select 1, convert_to(rpad(number::text, 100), 'UTF8') from generate_series(1, {Rows}) as number");
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, new PostgresQueueReceiverOptions { Queue = "tasks" }, new ScriptedHandler());
        var began = Stopwatch.GetTimestamp();
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        // As long as it goes on: a million takes longer than a deadline.
        await Until.ReachedAsync(() => Task.FromResult(receiver.GetStatistics().CompletedMessages), Rows);
        return Rows / Stopwatch.GetElapsedTime(began).TotalSeconds;
    }

    private static async Task<(string Plan, long PagesRead)> ExplainAsync(TestSchema schema, long? floor)
    {
        await using var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await ClaimPlan.PrepareAsync(connection, new ClaimStatements(new Tables("batchkit"), batchSize: 100).Claim);
        var lines = await ClaimPlan.ExplainAsync(connection, queue: 1, floor, options: "analyze, buffers, costs off, timing off");
        // The first is of the whole statement.
        var buffers = lines.First(static line => line.Contains("Buffers:", StringComparison.Ordinal));
        var pages = buffers.Split(' ').Where(static word => word.StartsWith("hit=", StringComparison.Ordinal) || word.StartsWith("read=", StringComparison.Ordinal));
        return (string.Join('\n', lines), pages.Sum(static word => long.Parse(word.Split('=')[1], CultureInfo.InvariantCulture)));
    }
}
