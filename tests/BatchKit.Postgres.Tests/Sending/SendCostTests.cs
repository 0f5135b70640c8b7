using System.Globalization;
using System.Text.RegularExpressions;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>What a send reads does not grow with the sends before it while an old snapshot keeps all versions of rows.</summary>
public sealed partial class SendCostTests(PostgresFixture postgres)
{
    [Fact]
    [Trait("Lane", "slow: thousands of sends")]
    public async Task A_send_reads_as_few_buffers_after_two_thousand_sends_under_an_old_snapshot()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.SendAsync(place.Batch("tasks", 1, "one"));
        await using var holder = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var snapshot = await holder.BeginTransactionAsync(System.Data.IsolationLevel.RepeatableRead, TestContext.Current.CancellationToken);
        await using (var command = new NpgsqlCommand($"select count(*) from {place.Schema.Quoted}.producers", holder, snapshot))
            await command.ExecuteScalarAsync(TestContext.Current.CancellationToken);
        var before = await MeasureAsync(place, number: 2);

        await place.Schema.ExecuteAsync("do $$ begin for n in 2..2000 loop update {s}.producers set number = n where number = n - 1; commit; end loop; end $$");
        await place.SendAsync(place.Batch("tasks", 2_001, "two"));
        var after = await MeasureAsync(place, number: 2_002);

        Assert.InRange(after, 1, before + 5);
        Assert.Equal(["one", "two"], await place.TextsAsync());
    }

    // The buffers of the statement of a small send, which is rolled back.
    private static async Task<int> MeasureAsync(SendingPlace place, long number)
    {
        var tables = new Tables(place.Schema.Name);
        var queue = await new QueueDirectory(place.Schema.DataSource, tables).FindOrCreateAsync("tasks", 0, TestContext.Current.CancellationToken);
        await using var connection = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await connection.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using var explain = new NpgsqlCommand($"explain (analyze, buffers, costs off, timing off) {new InsertStatements(tables).Plain}", connection)
        {
            Parameters =
            {
                new NpgsqlParameter<byte[][]> { TypedValue = [[1]] },
                new NpgsqlParameter<int> { TypedValue = queue.Id },
                new NpgsqlParameter<short?> { TypedValue = null, NpgsqlDbType = NpgsqlTypes.NpgsqlDbType.Smallint },
                new NpgsqlParameter<int> { TypedValue = place.Producer.Node },
                new NpgsqlParameter<long> { TypedValue = place.Producer.Epoch },
                new NpgsqlParameter<int> { TypedValue = place.Producer.Partition },
                new NpgsqlParameter<long> { TypedValue = number },
                new NpgsqlParameter<long> { TypedValue = number },
                new NpgsqlParameter<string> { TypedValue = "tasks" },
                new NpgsqlParameter<short> { TypedValue = 0 },
            },
        };
        await using var reader = await explain.ExecuteReaderAsync(TestContext.Current.CancellationToken);
        while (await reader.ReadAsync(TestContext.Current.CancellationToken))
        {
            if (Buffers().Match(reader.GetString(0)) is { Success: true } match)
                return match.Groups["count"].Captures.Sum(static capture => int.Parse(capture.Value, CultureInfo.InvariantCulture));
        }

        throw new InvalidOperationException("The plan has no buffers.");
    }

    [GeneratedRegex(@"Buffers: shared(?: (?:hit|read)=(?<count>\d+))+", RegexOptions.None, 10_000)]
    private static partial Regex Buffers();
}
