using BatchKit.Postgres.Frames;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Frames;

/// <summary>A dead frame that is replayed arrives, although later output of its sender was handled meanwhile.</summary>
public sealed class ReplayTests(PostgresFixture postgres)
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");

    private readonly ProducerId _producer = Some.Producer();
    private readonly CollectingTransport _arrived = new();

    [Fact]
    public async Task A_dead_frame_arrives_at_a_receiver_that_has_handled_a_later_one()
    {
        await using var schema = await postgres.NewTablesAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, FrameQueue = "frames" });
        await SendAsync(transport, 1, "first");
        await BuryAsync(schema);
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "frames", Shards = 1, Concurrency = 1, Poison = PoisonPolicy.Block };
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, options, new FrameHandler(new BatchReceiver(_arrived)));
        await receiver.StartAsync(TestContext.Current.CancellationToken);
        await SendAsync(transport, 2, "second");
        await _arrived.WaitForMessagesAsync(1);

        var replayed = await ReplayAsync(schema, "frames");

        await _arrived.WaitForMessagesAsync(2);
        await Until.TrueAsync(async () => await schema.ScalarAsync<long>("select count(*) from {s}.messages") == 0);
        Assert.Equal(1, replayed);
        Assert.Equal(["second", "first"], _arrived.Texts);
    }

    [Fact]
    public async Task What_an_outbox_replays_is_stored_by_a_transport_that_has_stored_later_output_and_again_in_a_second_replay()
    {
        await using var schema = await postgres.NewTablesAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var inner = new ScriptedTransport(transport).Answer(BatchOutcome.Refused).Pass().Answer(BatchOutcome.Refused);
        await using var outbox = new PostgresOutbox(schema.DataSource, inner, new PostgresOutboxOptions { Schema = schema.Name });
        await outbox.StartAsync(TestContext.Current.CancellationToken);
        await SendAsync(outbox, 1, "first");
        await Until.TrueAsync(() => HasDeadAsync(schema, 1));
        await SendAsync(outbox, 2, "second");
        await WaitForStoredAsync(schema, "second");

        await ReplayAsync(schema, "outbox");
        await Until.TrueAsync(async () => inner.Sends == 3 && await HasDeadAsync(schema, 1));
        await ReplayAsync(schema, "outbox");

        await WaitForStoredAsync(schema, "second", "first");
    }

    [Fact]
    public async Task A_replay_is_handed_on_once_although_its_attempt_is_repeated_and_again_when_it_is_replayed_again()
    {
        var handler = new FrameHandler(new BatchReceiver(_arrived));
        var (mark, other) = (ReplayedFrame.DrawMark(), ReplayedFrame.DrawMark());
        byte[] later = Frame(2, "later"), frame = Frame(1, "replayed");

        foreach (var row in new[] { Row(later), Row(frame, mark), Row(frame, mark), Row(later), Row(frame, other) })
        {
            await handler.HandleAsync([row], CancellationToken.None);
            Assert.Equal(MessageOutcome.Done, row.Outcome);
        }

        Assert.Equal(["later", "replayed", "replayed"], _arrived.Texts);
        Assert.Equal([_producer.Node], _arrived.Batches.Select(batch => batch.Producer.Node).Distinct());
        Assert.Equal([_producer.Epoch], _arrived.Batches.Select(batch => batch.Producer.Epoch).Distinct());
    }

    [Fact]
    public async Task A_signed_frame_stays_dead_when_it_is_a_repeat_or_too_old_and_says_why()
    {
        var clock = new ManualTimeProvider();
        var signer = new FrameSigner(Some.RandomBytes(FrameSigner.MinKeyBytes)) { TimeProvider = clock };
        var options = new BatchReceiverOptions { Signer = signer };
        var handler = new FrameHandler(new BatchReceiver(_arrived, options, clock));
        QueueMessage fresh = Row(Frame(1, "fresh", signer), ReplayedFrame.DrawMark()), later = Row(Frame(3, "later", signer)), repeat = Row(Frame(2, "repeat", signer), ReplayedFrame.DrawMark());
        var old = Row(Frame(4, "old", signer), ReplayedFrame.DrawMark());

        await handler.HandleAsync([fresh, later, repeat], CancellationToken.None);
        clock.Advance(options.MaxFrameAge + TimeSpan.FromSeconds(1));
        await handler.HandleAsync([old], CancellationToken.None);

        Assert.Equal(["fresh", "later"], _arrived.Texts);
        Assert.Equal([MessageOutcome.Done, MessageOutcome.Done, MessageOutcome.Dead, MessageOutcome.Dead], new[] { fresh, later, repeat, old }.Select(message => message.Outcome!.Value));
        Assert.StartsWith("It is signed, so that it keeps its numbers", repeat.Reason, StringComparison.Ordinal);
        Assert.StartsWith("Its receiver rejected it", old.Reason, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_replay_marks_a_row_anew_and_leaves_a_header_as_it_is_even_a_damaged_one()
    {
        await using var schema = await postgres.NewTablesAsync();
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('tasks')");
        foreach (var (id, bytes) in new[] { (1, "null"), (2, "'\\x010203'"), (3, "null") })
        {
            await schema.ExecuteAsync(
                $"insert into {{s}}.dead (id, queue, enqueued_at, rank, attempts, error, header, payload) select {id}, id, now(), 0, 1, 'why', {bytes}::bytea, 'x' from {{s}}.queues");
        }

        await ReplayAsync(schema, "tasks");
        var first = await HeadersAsync();
        await schema.ExecuteAsync("with gone as (delete from {s}.messages returning *) insert into {s}.dead (id, queue, enqueued_at, rank, attempts, error, header, payload) select id, queue, enqueued_at, 0, 1, 'why', header, payload from gone");
        await ReplayAsync(schema, "tasks");
        var second = await HeadersAsync();

        Assert.Equal(["010203"], first.Intersect(second));
        Assert.Equal([first[0], "010203", first[0]], first);
        Assert.Equal(first[0].Length, second[0].Length);

        Task<List<string>> HeadersAsync() => schema.ColumnAsync<string>("select encode(header, 'hex') from {s}.messages order by id");
    }

    private static QueueMessage Row(byte[] frame, byte[]? header = null) =>
        new(OutputHandle.Named("frames"), id: 1, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, frame) { StoredHeader = header };

    private static Task<int> ReplayAsync(TestSchema schema, string queue) =>
        new PostgresQueueAdmin(schema.DataSource, schema.Name).ReplayAsync(queue, cancellationToken: TestContext.Current.CancellationToken);

    private static Task BuryAsync(TestSchema schema) => schema.ExecuteAsync(
        "with gone as (delete from {s}.messages returning *) insert into {s}.dead (id, queue, enqueued_at, rank, attempts, shard, error, payload) select id, queue, enqueued_at, rank, 1, shard, 'why', payload from gone");

    private static async Task<bool> HasDeadAsync(TestSchema schema, long count) => await schema.ScalarAsync<long>("select count(*) from {s}.dead") == count;

    private static Task WaitForStoredAsync(TestSchema schema, params string[] texts) => Until.TrueAsync(async () =>
        texts.SequenceEqual(await schema.ColumnAsync<string>("select convert_from(m.payload, 'UTF8') from {s}.messages as m join {s}.queues as q on q.id = m.queue where q.name = 'room' order by m.id")));

    private async Task SendAsync(IBatchTransport transport, long number, string text) =>
        await transport.SendAsync(new[] { Some.Batch(Room, _producer, number, text) }, TestContext.Current.CancellationToken);

    private byte[] Frame(long number, string text, FrameSigner? signer = null)
    {
        using var frame = PooledFrame.Encode([Some.Batch(Room, _producer, number, text)], signer);
        return frame.Bytes.ToArray();
    }
}
