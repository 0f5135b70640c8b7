using BatchKit.Postgres.Frames;
using BatchKit.Postgres.Receiving;
using BatchKit.Postgres.Schema;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class HandlerTimeLimitTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_handler_that_returns_when_it_is_cancelled_has_not_handled_what_it_did_not_mark()
    {
        var handler = new ScriptedHandler(static async (batch, cancellationToken) =>
        {
            if (batch[0].Attempt == 1)
                await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        });
        await using var scene = await OpenAsync(handler, static _ => { });
        await scene.Claims.InsertAsync("a");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 1);

        Assert.Equal(["a:1", "a:2"], handler.Handled);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(200)]
    public async Task A_handler_that_heeds_its_token_at_the_limit_has_failed_and_is_tried_again(int prefetch)
    {
        var handler = new ScriptedHandler(static async (batch, cancellationToken) =>
        {
            if (batch[0].Attempt > 1)
                return;
            batch[0].Complete();
            await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
        });
        await using var scene = await OpenAsync(handler, options => options.Prefetch = prefetch);
        await scene.Claims.InsertAsync("a", "b", "c");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 3);

        Assert.Equal(["a:1", "b:1", "b:2", "c:1", "c:2"], handler.Handled.Order());
        Assert.Equal((1, 0, 2), (scene.Statistics.TimedOutBatches, scene.Statistics.AbandonedHandlers, scene.Statistics.RetriedMessages));
        Assert.Equal((1, 0), (scene.Log.Count(2635), scene.Log.Count(2636)));
        Assert.Contains("cancelled at HandlerTimeLimit (00:00:00.1", scene.Log.Text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_handler_that_ignores_its_token_is_given_up_and_its_late_result_counts_nothing(bool blocksItsThread)
    {
        var open = Signal();
        var handler = new ScriptedHandler(async (batch, _) =>
        {
            if (batch[0].Attempt > 1 || ClaimScene.TextOf(batch[0]) == "b")
                return;
            if (blocksItsThread)
                open.Task.Wait(CancellationToken.None);
            await open.Task;
            batch[0].Refuse("too late");
        });
        await using var scene = await OpenAsync(handler, static options => (options.BatchSize, options.Concurrency) = (1, 1));
        await scene.Claims.InsertAsync("a", "b");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 2);
        var abandoned = scene.Statistics.AbandonedHandlers;
        open.SetResult();
        await scene.UntilAsync(static statistics => statistics.AbandonedHandlers == 0);

        Assert.Equal(1, abandoned);
        Assert.Equal("a:1", handler.Handled[^1]);
        Assert.Equal(0, await scene.Claims.CountAsync("messages") + await scene.Claims.CountAsync("claims") + await scene.Claims.CountAsync("dead"));
        Assert.Equal((1, 1, 0), (scene.Statistics.TimedOutBatches, scene.Statistics.RetriedMessages, scene.Statistics.BuriedMessages + scene.Statistics.LostMessages));
        Assert.Equal((0, 1), (scene.Log.Count(2635), scene.Log.Count(2636)));
    }

    [Fact]
    public async Task A_callback_of_the_token_that_hangs_holds_up_neither_the_worker_nor_the_stop()
    {
        using var open = new ManualResetEventSlim();
        var handler = new ScriptedHandler(async (batch, cancellationToken) =>
        {
            if (batch[0].Attempt > 1)
                return;
            await using var _ = cancellationToken.UnsafeRegister(_ => open.Wait(CancellationToken.None), state: null);
            await Task.Delay(Timeout.InfiniteTimeSpan, CancellationToken.None);
        });
        await using var scene = await OpenAsync(handler, static options => (options.BatchSize, options.Concurrency, options.StopTimeout) = (1, 2, TimeSpan.Zero));
        await scene.Claims.InsertAsync("a");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 1);
        await scene.Claims.InsertAsync("b");
        await scene.UntilAsync(static statistics => statistics.HandlingMessages == 1);
        await scene.StopAsync();
        open.Set();

        Assert.InRange(scene.Statistics.AbandonedHandlers, 1, 2);
    }

    [Fact]
    public async Task A_message_whose_handler_always_hangs_dies_with_the_setting_as_its_reason()
    {
        var handler = new ScriptedHandler(static async (batch, cancellationToken) => await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken));
        await using var scene = await OpenAsync(handler, static options => options.MaxAttempts = 2);
        await scene.Claims.InsertAsync("a");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.BuriedMessages == 1);

        Assert.Equal("a:2", await scene.Claims.DeadAsync());
        Assert.Equal("The handler was cancelled at HandlerTimeLimit (00:00:00.1000000).", await scene.Claims.Schema.ScalarAsync<string>("select error from {s}.dead"));
        Assert.Equal(2, scene.Statistics.ConsecutiveFailures);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(20)]
    public async Task Handlers_that_never_end_are_bounded_and_leave_the_messages_to_other_receivers(int prefetch)
    {
        var (open, running, most) = (Signal(), 0, 0);
        var hanging = new ScriptedHandler(async (_, _) =>
        {
            InterlockedMax(ref most, Interlocked.Increment(ref running));
            await open.Task;
            Interlocked.Decrement(ref running);
        });
        await using var scene = await OpenAsync(hanging, options => (options.Concurrency, options.BatchSize, options.Prefetch, options.MaxAttempts) = (4, 1, prefetch, 100));
        await scene.Claims.InsertNumbersAsync(50);
        await scene.StartAsync();

        await scene.UntilAsync(static statistics => statistics is { AbandonedHandlers: >= 10, HandlingMessages: 0, PrefetchedMessages: 0 });
        var (fault, abandoned) = (scene.Receiver.Fault, scene.Statistics.AbandonedHandlers);
        await using var other = new PostgresQueueReceiver(scene.Claims.Schema.DataSource, scene.Claims.Options, new ScriptedHandler());
        await other.StartAsync(CancellationToken.None).WithinDeadline();
        await Until.TrueAsync(() => other.GetStatistics().CompletedMessages == 50);
        open.SetResult();
        await scene.UntilAsync(static statistics => statistics.AbandonedHandlers == 0);

        Assert.InRange(most, 10, 13);
        Assert.StartsWith($"{abandoned} handlers still run that HandlerTimeLimit (00:00:00.1", fault, StringComparison.Ordinal);
        Assert.Null(scene.Receiver.Fault);
        Assert.Equal(0, await scene.Claims.CountAsync("messages") + await scene.Claims.CountAsync("claims"));
    }

    [Fact]
    public async Task A_receiver_that_claims_nothing_goes_on_when_a_handler_that_was_given_up_ends()
    {
        var open = Signal();
        var handler = new ScriptedHandler(async (batch, _) =>
        {
            if (batch[0].Attempt == 1)
                await open.Task;
        });
        await using var scene = await OpenAsync(handler, static options => (options.Concurrency, options.BatchSize, options.PollInterval) = (10, 1, TimeSpan.FromMinutes(10)));
        await scene.Claims.InsertNumbersAsync(10);
        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.AbandonedHandlers == 10);

        open.SetResult();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 10);

        Assert.Equal(10, scene.Statistics.RetriedMessages);
    }

    [Fact]
    public async Task In_an_ordered_queue_other_keys_go_on_and_the_keys_order_holds()
    {
        await using var schema = await fixture.NewSchemaAsync();
        var open = Signal();
        var handler = new ScriptedHandler(async (batch, _) =>
        {
            if (batch is [{ Attempt: 1 }, ..] && ClaimScene.TextOf(batch[0]) == "a1")
                await open.Task;
        });
        var options = new PostgresQueueReceiverOptions
        {
            Schema = schema.Name,
            Queue = "ordered",
            Shards = 1,
            Concurrency = 1,
            BatchSize = 2,
            HandlerTimeLimit = TimeSpan.FromMilliseconds(100),
            PollInterval = TimeSpan.FromMilliseconds(100),
            RetryDelay = TimeSpan.FromMilliseconds(10),
        };
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, options, handler);
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        var queue = await new QueueDirectory(schema.DataSource, new Tables(schema.Name)).FindOrCreateAsync("ordered", 1, TestContext.Current.CancellationToken);
        foreach (var text in new[] { "a1", "a2", "b1", "a3" })
            await schema.ExecuteAsync($"insert into {{s}}.messages (queue, shard, key, payload) values ({queue.Id}, 0, '{text[0]}', '{text}')");

        await receiver.StartAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await Until.TrueAsync(() => receiver.GetStatistics().CompletedMessages == 4);
        var handled = handler.Handled;
        open.SetResult();
        await Until.TrueAsync(() => receiver.GetStatistics().AbandonedHandlers == 0);

        Assert.Equal(["a1:2", "a2:2", "a3:1"], handled.Where(static text => text.StartsWith('a')));
        Assert.Contains("b1:1", handled);
        Assert.Equal(0, await schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task The_time_is_the_clocks_of_the_receiver()
    {
        var clock = new ManualTimeProvider();
        var (began, cancelled) = (Signal(), Signal());
        var handler = new ScriptedHandler(async (batch, cancellationToken) =>
        {
            if (batch[0].Attempt > 1)
                return;
            await using var _ = cancellationToken.Register(() => cancelled.SetResult());
            began.SetResult();
            await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
        });
        await using var scene = await ReceiverScene.OpenAsync(
            fixture, handler, static options => (options.HandlerTimeLimit, options.ClaimTimeLimit) = (TimeSpan.FromMinutes(1), TimeSpan.FromHours(2)), timeProvider: clock);
        await scene.Claims.InsertAsync("a");
        await scene.StartAsync();
        await began.Task.WithinDeadline();
        // The wait for the handler begins behind its call.
        await Until.TrueAsync(() =>
        {
            var isEarly = cancelled.Task.IsCompleted;
            clock.Advance(TimeSpan.FromSeconds(1));
            return isEarly;
        });

        Assert.True(clock.GetElapsedTime(0) >= TimeSpan.FromMinutes(1), $"It was cancelled after {clock.GetElapsedTime(0)}.");
    }

    [Fact]
    public async Task Frames_whose_next_hop_hangs_have_failed_and_are_tried_again()
    {
        await using var schema = await fixture.NewSchemaAsync();
        var (arrived, log) = (new CollectingTransport(), new LogCollector());
        var nextHop = new ScriptedTransport(arrived);
        nextHop.Stall();
        await using var transport = new PostgresQueueTransport(schema.DataSource, new PostgresOptions { Schema = schema.Name, FrameQueue = "frames" });
        await transport.SendAsync(new[] { Some.Batch(OutputHandle.Named("room"), Some.Producer(), 1, "line") }, TestContext.Current.CancellationToken);
        var options = new PostgresQueueReceiverOptions
        {
            Schema = schema.Name,
            Queue = "frames",
            Shards = 1,
            Concurrency = 1,
            Poison = PoisonPolicy.Block,
            HandlerTimeLimit = TimeSpan.FromMilliseconds(100),
            RetryDelay = TimeSpan.FromMilliseconds(10),
            PollInterval = TimeSpan.FromMilliseconds(100),
        };
        await using var receiver = new PostgresQueueReceiver(schema.DataSource, options, new FrameHandler(new BatchReceiver(nextHop)), timeProvider: null, new Logger<PostgresQueueReceiver>(log));

        await receiver.StartAsync(TestContext.Current.CancellationToken);
        await arrived.WaitForMessagesAsync(1);
        await Until.TrueAsync(() => receiver.GetStatistics().CompletedMessages == 1);

        var statistics = receiver.GetStatistics();
        Assert.Equal((1, 1, 0), (statistics.TimedOutBatches, statistics.RetriedMessages, statistics.ReleasedMessages));
        Assert.Equal(1, log.Count(2635));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_handler_that_was_given_up_settles_nothing_in_a_transaction(bool isGivenUpMeanwhile)
    {
        await using var claims = await ClaimScene.OpenAsync(fixture);
        await claims.InsertAsync("a");
        var claim = (await claims.ClaimAsync())!;
        using var held = new HeldClaim(claim, claimedAt: 0);
        await using var connection = await claims.Schema.DataSource.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var transaction = await connection.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using var other = await claims.Connection.BeginTransactionAsync(TestContext.Current.CancellationToken);
        await using (var locking = new NpgsqlCommand($"select 1 from {claims.Schema.Quoted}.claims for update", claims.Connection, other))
            await locking.ExecuteNonQueryAsync(TestContext.Current.CancellationToken);

        var settling = isGivenUpMeanwhile ? SettleAsync() : null;
        if (settling is not null)
            await Until.TrueAsync(async () => await claims.Schema.ScalarAsync<long>($"select count(*) from pg_locks where not granted and pid = {connection.ProcessID}") > 0);
        held.MarkCopies(static message => message.Retry("given up"));
        await other.RollbackAsync(TestContext.Current.CancellationToken);
        var fault = await Assert.ThrowsAsync<InvalidOperationException>(() => settling ?? SettleAsync());
        await transaction.RollbackAsync(TestContext.Current.CancellationToken);

        Assert.Contains("given up", fault.Message, StringComparison.Ordinal);
        Assert.Empty(await claims.SettleAsync(held.Claim));
        Assert.Equal("a:1~", await claims.WaitingAsync());

        Task SettleAsync() => claim.Readable!.SettleAsync(transaction).WithinDeadline();
    }

    private async Task<ReceiverScene> OpenAsync(IMessageHandler<QueueMessage> handler, Action<PostgresQueueReceiverOptions> configure) =>
        await ReceiverScene.OpenAsync(fixture, handler, options =>
        {
            options.HandlerTimeLimit = TimeSpan.FromMilliseconds(100);
            configure(options);
        });

    private static void InterlockedMax(ref int most, int value)
    {
        for (var seen = Volatile.Read(ref most); value > seen; seen = Volatile.Read(ref most))
            Interlocked.CompareExchange(ref most, value, seen);
    }

    private static TaskCompletionSource Signal() => new(TaskCreationOptions.RunContinuationsAsynchronously);
}
