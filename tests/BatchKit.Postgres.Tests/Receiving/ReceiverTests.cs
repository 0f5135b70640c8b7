namespace BatchKit.Postgres.Tests.Receiving;

public sealed class ReceiverTests(PostgresFixture fixture)
{
    [Theory]
    [InlineData(0)]
    [InlineData(20)]
    public async Task All_that_waits_is_handled_once_and_gone(int prefetch)
    {
        var handler = new ScriptedHandler();
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, options => (options.BatchSize, options.Prefetch) = (10, prefetch));
        await scene.Claims.InsertNumbersAsync(1000);

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 1000);
        await scene.StopAsync();

        Assert.Equal(Enumerable.Range(1, 1000).Select(static number => $"{number}:1").Order(), handler.Handled.Order());
        Assert.Equal(0, await scene.Claims.CountAsync("messages") + await scene.Claims.CountAsync("claims"));
        Assert.Equal(1000, scene.Statistics.ClaimedMessages);
        Assert.Equal(0, scene.Statistics.HandlingMessages + scene.Statistics.PrefetchedMessages);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(200)]
    public async Task A_poison_message_alone_dies_and_its_neighbours_are_done_once(int prefetch)
    {
        var handler = new ScriptedHandler(static (batch, _) => batch.Any(static message => ClaimScene.TextOf(message) == "500") ? throw new InvalidOperationException("It is poison.") : ValueTask.CompletedTask);
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, options => (options.MaxAttempts, options.Prefetch) = (3, prefetch));
        await scene.Claims.InsertNumbersAsync(1000);

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages + statistics.BuriedMessages == 1000);
        await scene.StopAsync();

        Assert.Equal("500:3", await scene.Claims.DeadAsync());
        Assert.Equal("InvalidOperationException: It is poison.", await scene.Claims.Schema.ScalarAsync<string>("select error from {s}.dead"));
        Assert.Equal(999, scene.Statistics.CompletedMessages);
        Assert.Equal(["500:1", "500:2", "500:3"], handler.Handled.Where(static text => text.StartsWith("500:", StringComparison.Ordinal)));
        Assert.Equal("", await scene.Claims.WaitingAsync());
    }

    [Fact]
    public async Task What_the_handler_said_counts_when_it_throws_behind_that()
    {
        var handler = new ScriptedHandler(static (batch, _) =>
        {
            if (batch[0].Attempt > 1)
                return ValueTask.CompletedTask;
            batch[0].Complete();
            batch[1].Refuse("never");
            throw new IOException("The third one broke.");
        });
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler);
        await scene.Claims.InsertAsync("a", "b", "c");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 2);

        Assert.Equal(["a:1", "b:1", "c:1", "c:2"], handler.Handled);
        Assert.Equal("b:1", await scene.Claims.DeadAsync());
        Assert.Equal(1, scene.Statistics.RetriedMessages);
        Assert.Equal(1, scene.Log.Count(2625));
    }

    [Fact]
    public async Task A_delayed_message_is_handled_when_it_is_due()
    {
        var handler = new ScriptedHandler();
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => options.PollInterval = TimeSpan.FromSeconds(1));
        await scene.StartAsync();
        await scene.Claims.InsertDelayedAsync("later", TimeSpan.FromMilliseconds(1500));

        await handler.WaitForAsync(1);

        Assert.Equal(["later:1"], handler.Handled);
    }

    [Fact]
    public async Task Several_batches_are_handled_at_once_and_no_more_than_allowed()
    {
        var open = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var all = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var running = 0;
        var handler = new ScriptedHandler(async (_, _) =>
        {
            var now = Interlocked.Increment(ref running);
            Assert.InRange(now, 1, 3);
            // Reached again, maybe, when the gate is open.
            if (now == 3)
                all.TrySetResult();
            await open.Task;
            Interlocked.Decrement(ref running);
        });
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => (options.Concurrency, options.BatchSize) = (3, 1));
        await scene.Claims.InsertAsync("a", "b", "c", "d", "e");

        await scene.StartAsync();
        await all.Task.WithinDeadline();
        Assert.Equal(3, scene.Statistics.HandlingMessages);
        open.SetResult();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 5);

        Assert.Equal(0, scene.Statistics.RetriedMessages);
    }

    [Fact]
    public async Task Megabyte_messages_come_in_batches_of_the_allowed_bytes()
    {
        var lengths = new List<int>();
        var handler = new ScriptedHandler((batch, _) =>
        {
            lock (lengths)
                lengths.Add(batch.Sum(static message => message.Payload.Length));
            return ValueTask.CompletedTask;
        });
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => options.MaxBatchBytes = 3 << 20);
        await scene.Claims.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, payload) select {scene.Claims.Queue.Id}, convert_to(repeat('0123456789abcdef', 65536), 'UTF8') from generate_series(1, 10)");

        await scene.StartAsync();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 10);

        Assert.Equal(10 << 20, lengths.Sum());
        Assert.All(lengths, static length => Assert.InRange(length, 1 << 20, 3 << 20));
    }

    [Fact]
    public async Task A_message_that_comes_to_an_idle_receiver_is_found_without_a_notification()
    {
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler());
        await scene.StartAsync();

        await scene.Claims.InsertAsync("a");
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 1);

        Assert.Null(scene.Receiver.Fault);
        Assert.Equal(1, scene.Statistics.ClaimedBatches);
    }
}
