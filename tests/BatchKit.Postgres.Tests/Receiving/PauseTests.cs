using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class PauseTests(PostgresFixture fixture)
{
    [Theory]
    [InlineData(0)]
    [InlineData(6)]
    public async Task A_pause_settles_what_is_in_hand_and_claims_nothing_until_it_is_resumed(int prefetch)
    {
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, options => (options.Concurrency, options.BatchSize, options.Prefetch) = (1, 2, prefetch));
        await scene.Claims.InsertAsync("a", "b", "c", "d", "e", "f");
        await scene.StartAsync();
        await began.WithinDeadline();

        var pausing = scene.Receiver.PauseAsync(TestContext.Current.CancellationToken);
        var isEarly = pausing.IsCompleted;
        open.SetResult();
        await pausing.WithinDeadline();
        var claims = await scene.Claims.CountAsync("claims");
        await AssertNothingIsClaimedAsync(scene);
        var handled = handler.Handled;
        scene.Receiver.Resume();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 7);

        Assert.False(isEarly);
        Assert.Equal(0, claims);
        Assert.Equal(["a:1", "b:1"], handled);
        Assert.Equal(["a:1", "b:1", "c:1", "d:1", "e:1", "f:1", "late:1"], handler.Handled.Order());
        Assert.Equal((1, 1), (scene.Log.Count(2638), scene.Log.Count(2639)));
    }

    [Fact]
    public async Task A_pause_lasts_beyond_a_lost_queue_and_may_begin_before_the_start()
    {
        var handler = new ScriptedHandler();
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler);
        await scene.Receiver.PauseAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await scene.Claims.InsertAsync("a");
        await scene.StartAsync();
        await AssertNothingIsClaimedAsync(scene);
        var before = scene.Statistics.ClaimedBatches;

        await scene.Claims.Schema.ExecuteAsync("drop schema {s} cascade");
        await Until.TrueAsync(() => scene.Log.Count(2620) == 2);
        await AssertNothingIsClaimedAsync(scene);
        var (after, isPaused) = (scene.Statistics.ClaimedBatches, scene.Receiver.IsPaused);
        scene.Receiver.Resume();
        await handler.WaitForAsync(1);

        Assert.Equal((0, 0, true), (before, after, isPaused));
        Assert.Equal(["late:1"], handler.Handled);
    }

    [Fact]
    public async Task Whoever_no_longer_waits_leaves_the_pause_and_a_resume_ends_the_wait()
    {
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler);
        await scene.Claims.InsertAsync("a");
        await scene.StartAsync();
        await began.WithinDeadline();
        using var cancellation = new CancellationTokenSource();

        var first = scene.Receiver.PauseAsync(cancellation.Token);
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => first);
        var isPaused = scene.Receiver.IsPaused;
        var second = scene.Receiver.PauseAsync(TestContext.Current.CancellationToken);
        scene.Receiver.Resume();
        await second.WithinDeadline();
        open.SetResult();

        Assert.True(isPaused);
        Assert.False(scene.Receiver.IsPaused);
        Assert.Equal(1, scene.Log.Count(2638));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(20)]
    public async Task Each_pause_under_load_ends_with_nothing_in_hand_and_no_message_is_lost(int prefetch)
    {
        var running = 0;
        var handler = new ScriptedHandler(async (_, _) =>
        {
            Interlocked.Increment(ref running);
            await Task.Yield();
            Interlocked.Decrement(ref running);
        });
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, options => (options.Concurrency, options.BatchSize, options.Prefetch) = (4, 5, prefetch));
        await scene.Claims.InsertNumbersAsync(2000);
        await scene.StartAsync();

        for (var pause = 1; pause <= 20; pause++)
        {
            await scene.UntilAsync(statistics => statistics.CompletedMessages >= Math.Min(50 * pause, 2000));
            await scene.Receiver.PauseAsync(TestContext.Current.CancellationToken).WithinDeadline();
            Assert.Equal((0, 0L), (Volatile.Read(ref running), await scene.Claims.CountAsync("claims")));
            scene.Receiver.Resume();
        }

        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 2000);
        Assert.Equal(2000, handler.Handled.Distinct(StringComparer.Ordinal).Count());
        Assert.Equal(2000, handler.Handled.Count);
    }

    [Fact]
    public async Task A_pause_during_an_outage_leaves_no_fault_once_the_outage_is_over()
    {
        await using var small = NpgsqlDataSource.Create((await fixture.GetAsync()).ConnectionString + ";Maximum Pool Size=3;Timeout=1");
        // The listener and upkeep have the other two.
        var third = await small.OpenConnectionAsync(TestContext.Current.CancellationToken);
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler(), static options => options.Concurrency = 1, small);
        await scene.StartAsync();
        await scene.Claims.InsertAsync("a");
        await Until.TrueAsync(() => scene.Receiver.Fault?.Contains("The pool of connections is exhausted", StringComparison.Ordinal) ?? false);

        await scene.Receiver.PauseAsync(TestContext.Current.CancellationToken).WithinDeadline();
        await third.DisposeAsync();

        await Until.TrueAsync(() => scene.Receiver.Fault is null);
        Assert.Equal((1, 1), (scene.Log.Count(2621), scene.Log.Count(2622)));
    }

    // Upkeep makes a delayed message ready, and wakes a worker.
    private static async Task AssertNothingIsClaimedAsync(ReceiverScene scene)
    {
        var claimed = scene.Statistics.ClaimedBatches;
        var queue = await scene.Claims.Schema.ScalarAsync<int>("select id from {s}.queues");
        await scene.Claims.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, due_at, payload) values ({queue}, now() + interval '200 ms', 'late'::bytea)");
        await Until.TrueAsync(async () => (await scene.Claims.WaitingAsync()).EndsWith("late:0", StringComparison.Ordinal));
        Assert.Equal(claimed, scene.Statistics.ClaimedBatches);
    }
}
