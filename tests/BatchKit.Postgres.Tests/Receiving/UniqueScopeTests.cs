using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class UniqueScopeTests(PostgresFixture fixture)
{
    [Theory]
    [InlineData(0)]
    [InlineData(4)]
    public async Task One_message_waits_beside_one_that_is_handled(int shards)
    {
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var queue = await StartAsync(handler, shards);
        await queue.WriteAsync("first", UniqueScope.Waiting);
        await began.WithinDeadline();

        await queue.WriteAsync("second", UniqueScope.Waiting);
        await queue.WriteAsync("third", UniqueScope.Waiting);
        open.SetResult();
        await Until.TrueAsync(() => queue.Receiver.GetStatistics().CompletedMessages == 2);

        Assert.Equal(["first:1", "second:1"], handler.Handled);
        Assert.Equal(0, await queue.LeftAsync());
    }

    [Fact]
    public async Task A_prefetched_message_waits_no_more()
    {
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var queue = await StartAsync(handler, shards: 0, prefetch: 200);
        await queue.WriteAsync("first", UniqueScope.Waiting);
        await began.WithinDeadline();

        await queue.WriteAsync("second", UniqueScope.Waiting);
        await Until.TrueAsync(() => queue.Receiver.GetStatistics().PrefetchedMessages == 1);
        await queue.WriteAsync("third", UniqueScope.Waiting);
        open.SetResult();
        await Until.TrueAsync(() => queue.Receiver.GetStatistics().CompletedMessages == 3);

        Assert.Equal(["first:1", "second:1", "third:1"], handler.Handled);
        Assert.Equal(0, await queue.LeftAsync());
    }

    [Theory]
    [InlineData(0)]
    [InlineData(4)]
    public async Task By_default_what_arrives_while_it_is_handled_is_dropped(int shards)
    {
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var queue = await StartAsync(handler, shards);
        await queue.WriteAsync("first", UniqueScope.Unsettled);
        await began.WithinDeadline();

        await queue.WriteAsync("second", UniqueScope.Unsettled);
        await queue.WriteAsync("third", UniqueScope.Waiting);
        open.SetResult();
        await Until.TrueAsync(() => queue.Receiver.GetStatistics().CompletedMessages == 1);
        await queue.WriteAsync("fourth", UniqueScope.Unsettled);
        await Until.TrueAsync(() => queue.Receiver.GetStatistics().CompletedMessages == 2);

        Assert.Equal(["first:1", "fourth:1"], handler.Handled);
        Assert.Equal(0, await queue.LeftAsync());
    }

    [Theory]
    [InlineData(0)]
    [InlineData(4)]
    public async Task One_that_fails_comes_again_though_another_waits_and_frees_no_key_of_others(int shards)
    {
        var (began, open) = (Signal(), Signal());
        var handler = new ScriptedHandler(async (batch, _) =>
        {
            if (batch[0].Attempt > 1 || began.Task.IsCompleted)
                return;
            began.SetResult();
            await open.Task;
            throw new IOException("It failed once.");
        });
        await using var queue = await StartAsync(handler, shards);
        await queue.WriteAsync("first", UniqueScope.Waiting);
        await began.Task.WithinDeadline();
        await queue.WriteAsync("second", UniqueScope.Waiting, delay: TimeSpan.FromHours(1));

        open.SetResult();
        // In an ordered queue the second one waits behind it.
        await Until.TrueAsync(() => queue.Receiver.GetStatistics().CompletedMessages == 1);
        await queue.WriteAsync("third", UniqueScope.Waiting);

        Assert.Equal(["first:1", "first:2"], handler.Handled);
        Assert.Equal(["second"], await queue.Schema.ColumnAsync<string>("select convert_from(payload, 'UTF8') from {s}.messages"));
        Assert.Equal(1, await queue.Schema.ScalarAsync<long>("select count(*) from {s}.unique_keys"));
    }

    [Fact]
    public async Task An_unknown_scope_is_refused()
    {
        await using var schema = await fixture.NewSchemaAsync();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name });
        var header = new MessageHeader { Properties = [new(QueueMessageHeader.UniqueKeyProperty, "key"), new(QueueMessageHeader.UniqueScopeProperty, "sometimes")] };

        var error = await Assert.ThrowsAsync<BatchSendException>(async () =>
            await transport.SendAsync(new[] { MessageBatch.Create(OutputHandle.Named("tasks"), Some.Producer(), 1, Some.Message("a", header)) }, TestContext.Current.CancellationToken));

        Assert.Contains("batchkit-unique-scope ('sometimes') must be 'unsettled' or 'waiting'", error.Message, StringComparison.Ordinal);
        Assert.Throws<ArgumentOutOfRangeException>(() => QueueMessageHeader.Create(uniqueKey: "key", uniqueScope: (UniqueScope)2));
    }

    private async Task<WrittenQueue> StartAsync(IMessageHandler<QueueMessage> handler, int shards, int prefetch = 0)
    {
        var queue = new WrittenQueue(await fixture.NewSchemaAsync(), handler, shards, prefetch);
        await queue.Receiver.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        return queue;
    }

    private static TaskCompletionSource Signal() => new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>A queue whose messages all have one uniqueness key.</summary>
    private sealed class WrittenQueue : IAsyncDisposable
    {
        private readonly PostgresQueueTransport _transport;
        private readonly ProducerId _producer = Some.Producer();
        private long _number;

        public WrittenQueue(TestServers.Postgres.TestSchema schema, IMessageHandler<QueueMessage> handler, int shards, int prefetch)
        {
            Schema = schema;
            _transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, Shards = shards });
            Receiver = new PostgresQueueReceiver(schema.DataSource, new PostgresQueueReceiverOptions
            {
                Schema = schema.Name,
                Queue = "tasks",
                Shards = shards,
                Prefetch = prefetch,
                Concurrency = 1,
                PollInterval = TimeSpan.FromMilliseconds(50),
                RetryDelay = TimeSpan.FromMilliseconds(10),
            }, handler);
        }

        public TestServers.Postgres.TestSchema Schema { get; }

        public PostgresQueueReceiver Receiver { get; }

        public ValueTask WriteAsync(string text, UniqueScope scope, TimeSpan? delay = null) => _transport.SendAsync(
            new[] { MessageBatch.Create(OutputHandle.Named("tasks"), _producer, ++_number, Some.Message(text, QueueMessageHeader.Create(delay, uniqueKey: "key", key: "a", uniqueScope: scope))) },
            TestContext.Current.CancellationToken);

        public Task<long> LeftAsync() => Schema.ScalarAsync<long>("select (select count(*) from {s}.messages) + (select count(*) from {s}.unique_keys) + (select count(*) from {s}.claims)");

        public async ValueTask DisposeAsync()
        {
            await Receiver.DisposeAsync();
            await _transport.DisposeAsync();
            await Schema.DisposeAsync();
        }
    }
}
