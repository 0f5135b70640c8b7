using BatchKit.Postgres.Schema;
using BatchKit.Testing;
using BatchKit.Transports;
using Npgsql;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>What a message's header says becomes columns, or is kept with it.</summary>
public sealed class HeaderTests(PostgresFixture postgres)
{
    [Fact]
    public async Task A_delay_and_a_priority_become_columns_and_leave_no_header()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        await place.SendAsync(place.Batch(
            "tasks",
            1,
            Some.Message("late", QueueMessageHeader.Create(delay: TimeSpan.FromSeconds(90))),
            Some.Message("urgent", QueueMessageHeader.Create(priority: 7)),
            Some.Message("idle", QueueMessageHeader.Create(priority: -short.MaxValue)),
            Some.Message("plain")));

        var rows = await place.RowsAsync();
        Assert.Equal([90.0, null, null, null], rows.Select(row => row.DelaySeconds));
        Assert.Equal([0, -7, short.MaxValue, 0], rows.Select(row => (int)row.Rank));
        Assert.All(rows, row => Assert.Null(row.Header));
    }

    [Fact]
    public async Task What_else_a_header_says_comes_back_without_what_became_columns()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var full = Some.FullHeader();
        var header = new MessageHeader
        {
            Kind = full.Kind,
            Key = full.Key,
            ContentType = full.ContentType,
            ExcludedConnections = full.ExcludedConnections,
            Properties = [.. full.Properties, new(QueueMessageHeader.PriorityProperty, "3")],
        };

        await place.SendAsync(place.Batch("tasks", 1, Some.Message("all", header), Some.Message("as it is", full)));

        var rows = await place.RowsAsync();
        Assert.Equal([-3, 0], rows.Select(row => (int)row.Rank));
        foreach (var row in rows)
        {
            var read = StoredHeader.Read(row.Header)!;
            Assert.Equal((full.Kind, full.Key, full.ContentType), (read.Kind, read.Key, read.ContentType));
            Assert.Equal(full.ExcludedConnections, read.ExcludedConnections);
            Assert.Equal(full.Properties, read.Properties);
        }
    }

    [Fact]
    public async Task Of_messages_with_one_uniqueness_key_the_first_is_stored()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var unique = QueueMessageHeader.Create(uniqueKey: "once");
        var other = QueueMessageHeader.Create(uniqueKey: "other");

        await place.SendAsync(
            place.Batch("tasks", 1, Some.Message("first", unique), Some.Message("plain"), Some.Message("second", unique), Some.Message("other", other)),
            place.Batch("elsewhere", 2, Some.Message("of another queue", unique)));
        await place.SendAsync(place.Batch("tasks", 3, Some.Message("third", unique), Some.Message("plain too")));

        Assert.Equal(["first", "plain", "other", "of another queue", "plain too"], await place.TextsAsync());
        Assert.Equal(["once", null, "other", "once", null], (await place.RowsAsync()).Select(row => row.UniqueKey));
        Assert.Equal(3L, await place.Schema.ScalarAsync<long>("select count(*) from {s}.unique_keys"));
    }

    [Fact]
    public async Task A_uniqueness_key_that_an_open_transaction_frees_is_in_use_and_no_one_waits_for_it()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var unique = QueueMessageHeader.Create(uniqueKey: "once");
        await place.SendAsync(place.Batch("tasks", 1, Some.Message("first", unique)));
        await using var handler = await place.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await handler.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using (var command = new NpgsqlCommand($"delete from {place.Schema.Quoted}.unique_keys", handler, transaction))
            await command.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);

        await place.SendAsync(place.Batch("tasks", 2, Some.Message("second", unique)), place.Batch("others", 3, Some.Message("plain")));
        await transaction.CommitAsync(TestContext.Current.CancellationToken);
        await place.SendAsync(place.Batch("tasks", 4, Some.Message("third", unique)));

        Assert.Equal(["first", "plain", "third"], await place.TextsAsync());
    }

    [Fact]
    public async Task A_uniqueness_key_that_is_free_again_is_taken_again()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var unique = QueueMessageHeader.Create(uniqueKey: "once");
        await place.SendAsync(place.Batch("tasks", 1, Some.Message("first", unique)));
        await place.Schema.ExecuteAsync("delete from {s}.messages; delete from {s}.unique_keys");

        await place.SendAsync(place.Batch("tasks", 2, Some.Message("second", unique)));

        Assert.Equal(["second"], await place.TextsAsync());
    }

    [Fact]
    public async Task Senders_that_race_for_the_same_uniqueness_keys_store_each_once_and_never_block_each_other_for_good()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var keys = Enumerable.Range(0, 50).Select(key => $"key {key}").ToArray();

        await Task.WhenAll(Enumerable.Range(0, 8).Select(async lane =>
        {
            var producer = Some.Producer(partition: lane);
            var random = new Random(lane);
            for (var number = 1; number <= 5; number++)
            {
                random.Shuffle(keys = [.. keys]);
                await place.SendAsync(MessageBatch.Create(
                    OutputHandle.Named("tasks"), producer, number, Array.ConvertAll(keys, key => Some.Message(key, QueueMessageHeader.Create(uniqueKey: key)))));
            }
        }));

        Assert.Equal(Enumerable.Range(0, 50).Select(key => $"key {key}").Order(), (await place.TextsAsync()).Order());
    }
}
