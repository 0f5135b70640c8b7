using BatchKit.Postgres.Tests.Receiving;
using BatchKit.Postgres.Tests.Sending;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Tests.Schema;

/// <summary>Tables that were dropped and made again behind the package's back: a remembered number never leads to another queue, and everything goes on.</summary>
public sealed class LostQueueTests(PostgresFixture postgres)
{
    private const int QueueLost = 2630;

    [Theory]
    [InlineData(0, 0)]
    [InlineData(0, 200)]
    [InlineData(4, 0)]
    public async Task A_receiver_handles_nothing_of_a_queue_that_got_its_number_and_finds_its_own_again(int shards, int prefetch)
    {
        await using var schema = await postgres.NewSchemaAsync();
        var handler = new KeepingHandler();
        var log = new LogCollector();
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "mine", Shards = shards, Prefetch = prefetch, Concurrency = 2, PollInterval = TimeSpan.FromMilliseconds(50), ReconnectDelay = TimeSpan.FromMilliseconds(10) };
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, options, handler, logger: new Logger<PostgresQueueReceiver>(log));
        await receiver.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await AddAsync(schema, "mine", shards, "before");
        await handler.WaitForAsync(1);

        await MakeAgainAsync(schema, $"insert into {{s}}.queues (name, shards) values ('theirs', {shards})");
        await AddAsync(schema, "theirs", shards, "theirs");
        await log.WaitForAsync(QueueLost);
        await Until.TrueAsync(async () => await schema.ScalarAsync<long>("select count(*) from {s}.queues where name = 'mine'") == 1);
        await AddAsync(schema, "mine", shards, "behind");
        await handler.WaitForAsync(1);
        await Until.TrueAsync(() => receiver.Fault is null);
        await Until.TrueAsync(async () => await schema.ScalarAsync<long>("select count(*) from {s}.messages") == 1);

        Assert.Equal(["before", "behind"], handler.Texts);
        Assert.Equal(["theirs"], await schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') from {s}.messages"));
    }

    [Fact]
    public async Task A_sender_stores_nothing_in_a_queue_that_got_the_number_and_finds_its_own_again()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.SendAsync(place.Batch("tasks", 1, "one"));
        await MakeAgainAsync(place.Schema, "insert into {s}.queues (name) values ('theirs')");

        await place.RetrySendAsync(2, "two");

        Assert.Equal([("tasks", "two")], (await place.RowsAsync()).Select(row => (row.Queue, row.Text)));
    }

    [Fact]
    public async Task A_sender_with_headers_to_several_queues_finds_them_again()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var header = QueueMessageHeader.Create(priority: 3);
        await place.SendAsync(place.Batch("a", 1, Some.Message("one", header)), place.Batch("b", 2, Some.Message("two", header)));
        await MakeAgainAsync(place.Schema, "insert into {s}.queues (name) values ('b'), ('a')");

        await Assert.ThrowsAsync<IOException>(() => place.SendAsync(place.Batch("a", 3, Some.Message("three", header)), place.Batch("b", 4, Some.Message("four", header))));
        await place.SendAsync(place.Batch("a", 3, Some.Message("three", header)), place.Batch("b", 4, Some.Message("four", header)));

        Assert.Equal([("a", "three"), ("b", "four")], (await place.RowsAsync()).Select(row => (row.Queue, row.Text)));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task An_outbox_finds_its_queue_again_within_the_call(bool usesTransaction)
    {
        await using var schema = await postgres.NewSchemaAsync();
        var arrived = new CollectingTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50) });
        await outbox.StartAsync(TestContext.Current.CancellationToken);
        await EnqueueAsync(schema, outbox, "before", usesTransaction);
        await arrived.WaitForMessagesAsync(1);

        await MakeAgainAsync(schema, "insert into {s}.queues (name, shards) values ('theirs', 1)");
        await EnqueueAsync(schema, outbox, "behind", usesTransaction);
        await arrived.WaitForMessagesAsync(2);

        Assert.Equal(["before", "behind"], arrived.Texts);
    }

    [Fact]
    public async Task A_transaction_with_an_older_snapshot_stores_in_an_outbox_that_its_call_creates()
    {
        await using var schema = await postgres.NewTablesAsync();
        var arrived = new CollectingTransport();
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50) });
        await using var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await connection.BeginTransactionAsync(System.Data.IsolationLevel.RepeatableRead, TestContext.Current.CancellationToken);
        await using (var command = new Npgsql.NpgsqlCommand($"select count(*) from {schema.Quoted}.queues", connection, transaction))
            await command.ExecuteScalarAsync(TestContext.Current.CancellationToken);

        await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message("one")], transaction, TestContext.Current.CancellationToken);
        await transaction.CommitAsync(TestContext.Current.CancellationToken);
        await outbox.StartAsync(TestContext.Current.CancellationToken);

        await arrived.WaitForMessagesAsync(1);
    }

    [Fact]
    public async Task A_sender_that_expects_order_is_told_of_a_queue_without_order_and_other_queues_go_on()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, static options => options.Shards = 4);
        await PostgresSchema.EnsureSchemaAsync(place.Schema.DataSource, place.Schema.Name, TestContext.Current.CancellationToken);
        await place.Schema.ExecuteAsync("insert into {s}.queues (name, shards) values ('unordered', 0)");

        var error = await place.FailAsync(place.Batch("ordered", 1, "one"), place.Batch("unordered", 2, "two"));

        Assert.Equal([Transports.BatchOutcome.Acknowledged, Transports.BatchOutcome.Refused], error.Outcomes);
        Assert.Contains("'unordered' was created with 0 shards", error.Message, StringComparison.Ordinal);
        Assert.Contains("Shards is 4", error.Message, StringComparison.Ordinal);
        Assert.Equal(["one"], await place.TextsAsync());
    }

    private static async Task MakeAgainAsync(TestSchema schema, string queue)
    {
        await Until.TrueAsync(() => TryDropAsync(schema));
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        await schema.ExecuteAsync(queue);
        await schema.ExecuteAsync("insert into {s}.shards (queue, shard) select id, slot from {s}.queues, generate_series(0, shards - 1) as slot on conflict do nothing");
    }

    // Dropping locks one table after another, in another order than a claim does. PostgreSQL then ends one of the two.
    private static async Task<bool> TryDropAsync(TestSchema schema)
    {
        try
        {
            await schema.ExecuteAsync("drop schema {s} cascade");
            return true;
        }
        catch (Npgsql.PostgresException exception) when (exception.SqlState == Npgsql.PostgresErrorCodes.DeadlockDetected)
        {
            return false;
        }
    }

    private static Task AddAsync(TestSchema schema, string queue, int shards, string text) => schema.ExecuteAsync(
        $"insert into {{s}}.messages (queue, shard, payload) select id, {(shards > 0 ? Postgres.Sending.ShardMap.ShardOf(null, shards) : "null")}, '{text}' from {{s}}.queues where name = '{queue}'");

    private static async Task EnqueueAsync(TestSchema schema, PostgresOutbox outbox, string text, bool usesTransaction)
    {
        await using var connection = await schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await connection.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message(text)], usesTransaction ? transaction : null, TestContext.Current.CancellationToken);
        await transaction.CommitAsync(TestContext.Current.CancellationToken);
    }
}
