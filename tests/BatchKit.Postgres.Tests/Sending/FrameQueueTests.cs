using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Sending;

/// <summary>With a queue for frames, all output of a send is one row there, whatever its handle.</summary>
public sealed class FrameQueueTests(PostgresFixture postgres)
{
    [Fact]
    public async Task A_send_is_one_frame_with_all_that_it_has()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.FrameQueue = "frames");
        var header = Some.FullHeader();
        MessageBatch[] batches =
        [
            Some.Batch(Some.Connection(), place.Producer, 3, "to a connection"),
            MessageBatch.Create(OutputHandle.Named("a\0name that is no queue's"), place.Producer, 5, Some.Message("with a header", header)),
        ];

        await place.SendAsync(batches);

        var row = Assert.Single(await place.RowsAsync());
        Assert.Equal(("frames", (short?)0), (row.Queue, row.Shard));
        using var frame = FrameReader.Read(row.Payload);
        Assert.Equal(place.Producer, frame.Batches.Span[0].Producer);
        Assert.Equal([3L, 5L], frame.Batches.ToArray().Select(batch => batch.Number));
        Assert.Equal(batches.Select(batch => batch.Handle), frame.Batches.ToArray().Select(batch => batch.Handle));
        Assert.Equal(header.Key, frame.Batches.Span[1][0].Header!.Key);
    }

    [Fact]
    public async Task Batches_of_two_producers_are_two_frames()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.FrameQueue = "frames");
        var other = Some.Producer();

        await place.SendAsync(place.Batch("a", 1, "one"), Some.Batch(OutputHandle.Named("a"), other, 1, "other's"), place.Batch("a", 2, "two"));

        Assert.Equal([place.Producer, other, place.Producer], (await place.RowsAsync()).Select(row =>
        {
            using var frame = FrameReader.Read(row.Payload);
            return frame.Batches.Span[0].Producer;
        }));
    }

    [Fact]
    public async Task A_send_that_is_too_large_is_several_frames_in_order_and_a_batch_that_is_refused()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options =>
        {
            options.FrameQueue = "frames";
            options.MaxStatementBytes = 4096;
        });
        var batches = Enumerable.Range(1, 10).Select(number => place.Batch("a", number, new BatchMessage(new byte[number == 5 ? 5000 : 1500]))).ToArray();

        var error = await place.FailAsync(batches);

        Assert.Equal(BatchOutcome.Refused, error.Outcomes[4]);
        Assert.Equal(9, error.Outcomes.Count(outcome => outcome == BatchOutcome.Acknowledged));
        var numbers = (await place.RowsAsync()).Select(row =>
        {
            Assert.InRange(row.Payload.Length, 1, 4096);
            using var frame = FrameReader.Read(row.Payload);
            return frame.Batches.ToArray().Select(batch => batch.Number).ToArray();
        });
        Assert.Equal([[1, 2], [3, 4], [6, 7], [8, 9], [10]], numbers);
    }

    [Fact]
    public async Task A_queue_that_has_other_shards_takes_no_frames()
    {
        await using var place = await SendingPlace.MakeAsync(postgres, options => options.FrameQueue = "frames");
        await PostgresSchema.EnsureSchemaAsync(place.Schema.DataSource, place.Schema.Name, TestContext.Current.CancellationToken);
        await place.Schema.ExecuteAsync("insert into {s}.queues (name, shards) values ('frames', 4)");

        var error = await Assert.ThrowsAsync<IOException>(() => place.SendAsync(place.Batch("a", 1, "one")));

        Assert.Contains("4 shards", error.Message, StringComparison.Ordinal);
        Assert.Empty(await place.TextsAsync());
    }
}
