using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;
using BatchKit.Testing;
using BatchKit.TestServers.Postgres;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>A message whose header a process can't read harms only itself: one of a newer version is left for processes that can read it, and a malformed one is given up.</summary>
public sealed class NewerVersionTests(PostgresFixture fixture)
{
    private const int VersionAt = 3;

    [Theory]
    [InlineData(0)]
    [InlineData(200)]
    public async Task A_newer_header_goes_back_without_an_attempt_and_its_neighbours_are_handled(int prefetch)
    {
        var handler = new ScriptedHandler();
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, options => (options.MaxAttempts, options.Prefetch) = (1, prefetch));
        await scene.Claims.InsertAsync("before");
        await InsertAsync(scene.Claims.Schema, "newer", Newer());
        await InsertAsync(scene.Claims.Schema, "malformed", [1, 2, 3]);
        await scene.Claims.InsertAsync("behind");

        await scene.StartAsync();
        await handler.WaitForAsync(2);
        await Until.TrueAsync(async () => await scene.Claims.WaitingAsync() == "newer:0~");
        await scene.UntilAsync(static statistics => statistics.UnreadableMessages >= 3);

        Assert.Equal(["before:1", "behind:1"], handler.Handled);
        Assert.Equal("malformed:1", await scene.Claims.DeadAsync());
        Assert.Equal((1, 1), (scene.Log.Count(2631), scene.Log.Count(2632)));
    }

    [Fact]
    public async Task A_newer_header_is_told_of_though_a_malformed_one_came_before()
    {
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler());
        await InsertAsync(scene.Claims.Schema, "malformed", [1, 2, 3]);
        await scene.StartAsync();
        await scene.Log.WaitForAsync(2632);

        await InsertAsync(scene.Claims.Schema, "newer", Newer());

        await scene.Log.WaitForAsync(2631);
        await scene.UntilAsync(static statistics => statistics.UnreadableMessages >= 4);
        Assert.Equal((1, 1), (scene.Log.Count(2631), scene.Log.Count(2632)));
    }

    [Fact]
    public async Task What_was_left_is_handled_by_a_process_that_can_read_it()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture, static options => options.PollInterval = TimeSpan.FromMilliseconds(10));
        await InsertAsync(scene.Schema, "newer", Newer());
        var claim = (await scene.ClaimAsync())!;
        Assert.Empty(await scene.SettleAsync(claim));

        await scene.Schema.ExecuteAsync("update {s}.messages set due_at = now(), header = set_byte(header, 3, 2)");
        await scene.UpkeepAsync();
        var readable = (await scene.ClaimAsync())!;

        Assert.Null(claim.Readable);
        Assert.Equal("key", Assert.Single(readable.Readable!).Header!.Key);
        Assert.Equal(1, readable.Batch[0].Attempt);
    }

    [Fact]
    public async Task In_an_ordered_queue_the_key_of_a_newer_message_waits_and_other_keys_go_on()
    {
        await using var schema = await fixture.NewSchemaAsync();
        var handler = new ScriptedHandler();
        await using var receiver = await StartOrderedAsync(schema, handler);
        var id = await schema.ScalarAsync<int>("select id from {s}.queues");
        foreach (var (key, text, header) in new[] { ("a", "a1", null), ("b", "b1", Newer()), ("a", "a2", null), ("b", "b2", null), ("c", "c1", [9]), ("c", "c2", null) })
            await InsertOrderedAsync(schema, id, key, text, header);

        await schema.ExecuteAsync($"select pg_notify('{NotificationChannel.Of(new Tables(schema.Name))}', '{id}')");
        await handler.WaitForAsync(3);
        await Until.TrueAsync(() => receiver.GetStatistics().UnreadableMessages >= 4);
        // A handled message is deleted after its handler has returned.
        await Until.TrueAsync(async () => await schema.ScalarAsync<long>("select count(*) from {s}.messages") == 2);
        var waiting = await schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') || attempts from {s}.messages order by id");
        var dead = await schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') from {s}.dead");
        // An exchange that is under way may put it off once more.
        await Until.TrueAsync(async () =>
        {
            await schema.ExecuteAsync("update {s}.messages set due_at = now(), header = null where due_at is not null");
            return handler.Handled.Count >= 5;
        });

        Assert.Equal(["b10", "b20"], waiting);
        Assert.Equal(["c1"], dead);
        Assert.Equal(["a1:1", "a2:1", "b1:1", "b2:1", "c2:1"], handler.Handled.Order(StringComparer.Ordinal));
        Assert.Equal(["b1:1", "b2:1"], handler.Handled.Where(text => text.StartsWith('b')));
    }

    [Fact]
    public async Task Dead_messages_are_listed_whatever_their_headers_are()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        foreach (var (id, header) in new[] { (1, Newer()), (2, [1, 2, 3]), (3, StoredHeader.Write(new MessageHeader { Key = "key" })) })
        {
            await scene.Schema.ExecuteAsync(
                $"insert into {{s}}.dead (id, queue, enqueued_at, rank, attempts, error, header, payload) values ({id}, {scene.Queue.Id}, now(), 0, 1, 'why', '\\x{Convert.ToHexString(header)}', 'x')");
        }

        var dead = await new PostgresQueueAdmin(scene.Schema.DataSource, scene.Schema.Name).ListDeadAsync(ClaimScene.QueueName, cancellationToken: TestContext.Current.CancellationToken);

        Assert.Equal([(1L, null), (2L, null), (3L, "key")], dead.OrderBy(message => message.Id).Select(message => (message.Id, message.Key)));
    }

    [Fact]
    public async Task A_newer_frame_is_left_with_all_behind_it_and_given_up_after_the_time_limit()
    {
        var clock = new ManualTimeProvider();
        var arrived = new CollectingTransport();
        var handler = new FrameHandler(new BatchReceiver(arrived), clock);
        var producer = Some.Producer();
        byte[][] frames = [Frame(producer, 1, "one"), NewerFrame(producer, 2), Frame(producer, 3, "three")];

        var first = Batch(frames);
        await handler.HandleAsync(first, CancellationToken.None);
        clock.Advance(NewerFrames.Limit);
        var second = Batch(frames[1..]);
        await handler.HandleAsync(second, CancellationToken.None);
        var third = Batch(frames[2..]);
        await handler.HandleAsync(third, CancellationToken.None);

        Assert.Equal([MessageOutcome.Done, MessageOutcome.Released, MessageOutcome.Released], first.Select(message => message.Outcome!.Value));
        Assert.Equal([TimeSpan.FromSeconds(1), null], first.Skip(1).Select(message => message.RetryDelay));
        Assert.Equal([MessageOutcome.Dead, MessageOutcome.Released], second.Select(message => message.Outcome!.Value));
        Assert.Equal([MessageOutcome.Done], third.Select(message => message.Outcome!.Value));
        Assert.Equal(["one", "three"], arrived.Texts);
    }

    [Fact]
    public async Task A_queue_of_frames_leaves_a_newer_one_for_a_process_that_can_read_it_and_nothing_overtakes()
    {
        await using var schema = await fixture.NewSchemaAsync();
        var (arrived, log, producer) = (new CollectingTransport(), new LogCollector(), Some.Producer());
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, FrameQueue = "frames" });
        for (var number = 1; number <= 3; number++)
            await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("room"), producer, number, $"line {number - 1}") }, TestContext.Current.CancellationToken);
        await schema.ExecuteAsync("update {s}.messages set payload = set_byte(payload, 3, 3) where id = 2");
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "frames", Shards = 1, Concurrency = 1, Poison = PoisonPolicy.Block, PollInterval = TimeSpan.FromMilliseconds(50) };
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, options, new FrameHandler(new BatchReceiver(arrived), timeProvider: null, log));

        await receiver.StartAsync(TestContext.Current.CancellationToken);

        await AssertTheNewerFrameWaitsAsync(schema, log, arrived);
    }

    [Fact]
    public async Task An_outbox_leaves_a_newer_frame_for_a_process_that_can_read_it_and_nothing_overtakes()
    {
        await using var schema = await fixture.NewSchemaAsync();
        var arrived = new CollectingTransport();
        var log = new LogCollector();
        await using var outbox = new PostgresOutbox(schema.DataSource, arrived, new PostgresOutboxOptions { Schema = schema.Name, PollInterval = TimeSpan.FromMilliseconds(50) },
            logger: new Microsoft.Extensions.Logging.Logger<PostgresOutbox>(log));
        foreach (var line in Some.Lines(3))
            await outbox.EnqueueAsync(OutputHandle.Named("room"), [Some.Message(line)], cancellationToken: TestContext.Current.CancellationToken);
        await schema.ExecuteAsync("update {s}.messages set payload = set_byte(payload, 3, 3) where id = 2");

        await outbox.StartAsync(TestContext.Current.CancellationToken);

        await AssertTheNewerFrameWaitsAsync(schema, log, arrived);
    }

    /// <summary>Of three frames the second one is newer: it waits without an attempt, the third waits behind it, and both arrive once the second can be read.</summary>
    private static async Task AssertTheNewerFrameWaitsAsync(TestSchema schema, LogCollector log, CollectingTransport arrived)
    {
        await log.WaitForAsync(2633);
        await arrived.WaitForMessagesAsync(1);
        var attempts = await schema.ScalarAsync<int>("select max(attempts)::int from {s}.messages");
        await schema.ExecuteAsync("update {s}.messages set payload = set_byte(payload, 3, 2), due_at = now() where id = 2");
        await arrived.WaitForMessagesAsync(3);

        Assert.Equal(0, attempts);
        Assert.Equal(Some.Lines(3), arrived.Texts);
    }

    private static async Task<PostgresQueueReceiver> StartOrderedAsync(TestSchema schema, IMessageHandler<QueueMessage> handler)
    {
        var options = new PostgresQueueReceiverOptions { Schema = schema.Name, Queue = "ordered", Shards = 1, MaxAttempts = 1, PollInterval = TimeSpan.FromMilliseconds(100), RetryDelay = TimeSpan.FromMilliseconds(10) };
        var receiver = new PostgresQueueReceiver(schema.DataSource, options, handler);
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        return receiver;
    }

    private static Task InsertAsync(TestSchema schema, string text, byte[] header) =>
        schema.ExecuteAsync($"insert into {{s}}.messages (queue, header, payload) select id, '\\x{Convert.ToHexString(header)}', '{text}' from {{s}}.queues");

    private static Task InsertOrderedAsync(TestSchema schema, int queue, string key, string text, byte[]? header) => schema.ExecuteAsync(
        $"insert into {{s}}.messages (queue, shard, key, header, payload) values ({queue}, {ShardMap.ShardOf(key, 1)}, '{key}', {(header is null ? "null" : $"'\\x{Convert.ToHexString(header)}'")}, '{text}')");

    private static byte[] Newer()
    {
        var header = StoredHeader.Write(new MessageHeader { Key = "key" });
        header[VersionAt]++;
        return header;
    }

    private static byte[] NewerFrame(ProducerId producer, long number)
    {
        var frame = Frame(producer, number, "newer");
        frame[VersionAt]++;
        return frame;
    }

    private static byte[] Frame(ProducerId producer, long number, string text) => Some.Frame(Some.Batch(OutputHandle.Named("room"), producer, number, text));

    private static QueueMessage[] Batch(byte[][] frames) =>
        [.. frames.Select(frame => new QueueMessage(OutputHandle.Named("frames"), 10 + frame[VersionAt] + frame.Length, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, frame))];
}
