using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>What is sent is stored: a message a row, in order, each in its queue.</summary>
public sealed class SendTests(PostgresFixture postgres)
{
    [Fact]
    public async Task Messages_become_rows_in_order()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        await place.SendAsync(place.Batch("tasks", 1, Some.Lines(1000)), place.Batch("tasks", 2, Some.Lines(1000, start: 1000)));

        Assert.Equal(Some.Lines(2000), await place.TextsAsync());
        Assert.All(await place.RowsAsync(), row => Assert.Equal(new StoredRow("tasks", 0, null, null, null, null, null, row.Payload), row));
    }

    [Fact]
    public async Task One_send_may_fill_many_queues_and_its_rows_keep_its_order()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        var batches = Enumerable.Range(1, 100).Select(number => place.Batch($"queue {number % 7}", number, $"{number} a", $"{number} b")).ToArray();

        await place.SendAsync(batches);

        var rows = await place.RowsAsync();
        Assert.Equal(Enumerable.Range(1, 100).SelectMany(number => new[] { $"{number} a", $"{number} b" }), rows.Select(row => row.Text));
        Assert.All(rows, row => Assert.Equal($"queue {int.Parse(row.Text.Split(' ')[0]) % 7}", row.Queue));
    }

    [Fact]
    public async Task Any_bytes_come_back_also_none_and_a_megabyte()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        byte[][] payloads = [[], [0], Some.RandomBytes(100), Some.RandomBytes(3000), Some.RandomBytes(1024 * 1024), "{} \" ' \\"u8.ToArray()];

        await place.SendAsync(place.Batch("tasks", 1, Array.ConvertAll(payloads, payload => new BatchMessage(payload))));

        Assert.Equal(payloads, (await place.RowsAsync()).Select(row => row.Payload));
    }

    [Fact]
    public async Task Sends_of_many_producers_side_by_side_keep_the_order_of_each()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);

        await Task.WhenAll(Enumerable.Range(0, 8).Select(async lane =>
        {
            var producer = Some.Producer(partition: lane);
            for (var number = 1; number <= 20; number++)
                await place.SendAsync(Some.Batch(OutputHandle.Named($"queue {lane % 3}"), producer, number, $"{lane} {number}"));
        }));

        var texts = await place.TextsAsync();
        Assert.Equal(160, texts.Count);
        for (var lane = 0; lane < 8; lane++)
            Assert.Equal(Enumerable.Range(1, 20).Select(number => $"{lane} {number}"), texts.Where(text => text.StartsWith($"{lane} ", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task An_ordered_queue_has_its_rows_in_the_shards_of_their_keys()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.Shards = 16);
        string?[] keys = ["a", "b", null, "", "a", "\u4e16\u754c"];

        await place.SendAsync(place.Batch("tasks", 1, Array.ConvertAll(keys, key => Some.Message($"of {key}", key is null ? null : new MessageHeader { Key = key }))));

        var rows = await place.RowsAsync();
        Assert.Equal(keys, rows.Select(row => row.Key));
        Assert.Equal(keys.Select(key => (short?)ShardMap.ShardOf(key, 16)), rows.Select(row => row.Shard));
    }

    [Fact]
    public async Task Plain_messages_of_an_ordered_queue_share_a_shard()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.QueueShards["tasks"] = 5);

        await place.SendAsync(place.Batch("tasks", 1, "one", "two"), place.Batch("others", 2, "three"));

        Assert.Equal([(short)ShardMap.ShardOf(null, 5), (short)ShardMap.ShardOf(null, 5), null], (await place.RowsAsync()).Select(row => row.Shard));
    }

    [Fact]
    public async Task What_does_not_fit_one_statement_takes_several_in_order()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.MaxStatementBytes = 4096);
        var batches = Enumerable.Range(1, 20).Select(number => place.Batch("tasks", number, new BatchMessage(Some.RandomBytes(1500, number)))).ToArray();

        await place.SendAsync(batches);

        Assert.Equal(batches.Select(batch => batch.Payload.ToArray()), (await place.RowsAsync()).Select(row => row.Payload));
        // Two of 1,500 bytes fit 4,096; each transaction has one time.
        Assert.Equal(10L, await place.Schema.ScalarAsync<long>("select count(distinct enqueued_at) from {s}.messages"));
    }

    [Fact]
    public async Task A_failure_between_two_statements_leaves_each_batch_its_outcome()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.MaxStatementBytes = 4096);
        await place.SendAsync(place.Batch("tasks", 1, "first"));
        await place.Schema.ExecuteAsync("""
            create function {s}.no_bad() returns trigger language plpgsql as 'begin raise exception ''no_bad''; end';
            create trigger no_bad before insert on {s}.messages for each row when (new.payload = 'bad'::bytea) execute function {s}.no_bad()
            """);
        MessageBatch[] batches =
        [
            place.Batch("tasks", 2, new BatchMessage(Some.RandomBytes(4000))),
            place.Batch("tasks", 3, new BatchMessage(Some.RandomBytes(4000, 2))),
            place.Batch("tasks", 4, "bad"),
            place.Batch("tasks", 5, new BatchMessage(Some.RandomBytes(4000, 3))),
        ];

        var error = await place.FailAsync(batches);
        await place.Schema.ExecuteAsync("drop function {s}.no_bad() cascade");
        await place.SendAsync(batches);

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged], error.Outcomes);
        Assert.Contains("no_bad", error.Message, StringComparison.Ordinal);
        Assert.Equal([5, 4000, 4000, 3, 4000], (await place.RowsAsync()).Select(row => row.Payload.Length));
    }

    [Fact]
    public async Task A_row_that_a_check_refuses_refuses_its_batch_alone()
    {
        await using var place = await SendingPlace.MakeAsync(postgres);
        await place.SendAsync(place.Batch("tasks", 1, "first"));
        await place.Schema.ExecuteAsync("alter table {s}.messages add constraint no_bad check (payload <> 'bad'::bytea)");

        var error = await place.FailAsync([place.Batch("tasks", 2, "two"), place.Batch("tasks", 3, "bad"), place.Batch("tasks", 4, "four"), place.Batch("tasks", 5, "five")]);

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged, BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Contains("no_bad", error.Message, StringComparison.Ordinal);
        Assert.Equal(4, (await place.RowsAsync()).Count);
    }

    [Fact]
    public async Task A_message_as_large_as_it_says_is_taken_and_a_larger_batch_refused()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.MaxStatementBytes = 8192);
        var largest = new byte[place.Transport.MaxMessageBytes];

        await place.SendAsync(place.Batch("tasks", 1, new BatchMessage(largest)));
        var error = await place.FailAsync(place.Batch("tasks", 2, new BatchMessage(new byte[8193])), place.Batch("tasks", 3, "neighbour"));

        Assert.Equal([BatchOutcome.Refused, BatchOutcome.Acknowledged], error.Outcomes);
        Assert.Contains(nameof(PostgresOptions.MaxStatementBytes), error.Message, StringComparison.Ordinal);
        Assert.Equal([largest.Length, "neighbour".Length], (await place.RowsAsync()).Select(row => row.Payload.Length));
    }
}
