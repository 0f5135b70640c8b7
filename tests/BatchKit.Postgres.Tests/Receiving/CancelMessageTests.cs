using BatchKit.Postgres.Tests.Ordered;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class CancelMessageTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_waiting_message_is_taken_out_and_its_key_is_free_again()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertUniqueAsync("a", "key");
        await scene.InsertUniqueAsync("b", "other");

        var first = await CancelAsync(scene, "key");
        var second = await CancelAsync(scene, "key");

        Assert.Equal((true, false), (first, second));
        Assert.Equal("b:0", await scene.WaitingAsync());
        Assert.Equal(["other"], await scene.Schema.ColumnAsync<string>("select key from {s}.unique_keys"));
    }

    [Theory]
    [InlineData("due_at = now() + interval '1 hour'")]
    [InlineData("due_at = now() + interval '1 hour', attempts = 2")]
    public async Task A_delayed_message_and_one_that_failed_wait_too(string change)
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertUniqueAsync("a", "key");
        await scene.Schema.ExecuteAsync($"update {{s}}.messages set {change}");

        Assert.True(await CancelAsync(scene, "key"));

        Assert.Equal(0, await scene.CountAsync("messages") + await scene.CountAsync("unique_keys"));
    }

    [Fact]
    public async Task One_that_runs_is_not_touched_and_settles_as_ever()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        await scene.InsertUniqueAsync("a", "key");
        var claim = (await scene.ClaimAsync())!;

        Assert.False(await CancelAsync(scene, "key"));

        Assert.Empty(await scene.SettleAsync(claim));
        Assert.Equal(0, await scene.CountAsync("unique_keys"));
    }

    [Fact]
    public async Task A_queue_that_does_not_exist_and_a_key_that_can_not_be_are_told_apart()
    {
        await using var scene = await ClaimScene.OpenAsync(fixture);
        var admin = new PostgresQueueAdmin(scene.Schema.DataSource, scene.Schema.Name);

        await Assert.ThrowsAsync<KeyNotFoundException>(() => admin.CancelAsync("nowhere", "key"));

        Assert.False(await CancelAsync(scene, "nul\0"));
        Assert.False(await CancelAsync(scene, ""));
        Assert.False(await CancelAsync(scene, "it's \"odd\" \\ %"));
    }

    [Fact]
    public async Task In_an_ordered_queue_a_message_in_hand_stays_and_one_of_the_same_shard_goes()
    {
        await using var queue = await OrderedQueue.OpenAsync(await fixture.GetAsync(), configure: static options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "a:2");
        await queue.Schema.ExecuteAsync("insert into {s}.unique_keys select queue, id::text from {s}.messages; update {s}.messages set unique_key = id::text");
        var claim = (await queue.TakeAsync())!;
        var admin = new PostgresQueueAdmin(queue.Schema.DataSource, queue.Schema.Name);

        var running = await admin.CancelAsync("ordered", "1", TestContext.Current.CancellationToken);
        var waiting = await admin.CancelAsync("ordered", "2", TestContext.Current.CancellationToken);
        var next = await queue.SettleAndTakeAsync(claim);

        Assert.Equal((false, true), (running, waiting));
        Assert.Null(next);
        Assert.Equal(0, await queue.Schema.ScalarAsync<long>("select count(*) from {s}.unique_keys") + await queue.Schema.ScalarAsync<long>("select count(*) from {s}.messages"));
    }

    [Fact]
    public async Task In_an_ordered_queue_what_is_parked_behind_a_cancelled_message_goes_on()
    {
        await using var queue = await OrderedQueue.OpenAsync(await fixture.GetAsync(), configure: static options => options.BatchSize = 1);
        await queue.AddAsync("a:1", "a:2", "a:3", "b:4");
        await queue.Schema.ExecuteAsync("insert into {s}.unique_keys select id, 'key' from {s}.queues; update {s}.messages set unique_key = 'key', due_at = now() + interval '1 hour' where id = 1");
        var other = (await queue.TakeAsync())!;
        var none = await queue.SettleAndTakeAsync(other);

        Assert.True(await new PostgresQueueAdmin(queue.Schema.DataSource, queue.Schema.Name).CancelAsync("ordered", "key", TestContext.Current.CancellationToken));
        await queue.UpkeepAsync();
        var next = (await queue.TakeAsync())!;
        var last = await queue.SettleAndTakeAsync(next);

        Assert.Null(none);
        Assert.Equal(["2"], OrderedQueue.Texts(next));
        Assert.Equal(["3"], OrderedQueue.Texts(last));
    }

    [Fact]
    public async Task Under_load_each_message_is_either_handled_or_cancelled()
    {
        var handler = new ScriptedHandler();
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => options.BatchSize = 5);
        await scene.Claims.Schema.ExecuteAsync($"insert into {{s}}.messages (queue, unique_key, payload) select {scene.Claims.Queue.Id}, number::text, convert_to(number::text, 'UTF8') from generate_series(1, 500) as number");
        await scene.Claims.Schema.ExecuteAsync("insert into {s}.unique_keys select queue, unique_key from {s}.messages");
        var admin = new PostgresQueueAdmin(scene.Claims.Schema.DataSource, scene.Claims.Schema.Name);

        await scene.StartAsync();
        var cancelled = new List<string>();
        for (var number = 500; number > 0; number--)
        {
            if (await admin.CancelAsync(ClaimScene.QueueName, $"{number}", TestContext.Current.CancellationToken))
                cancelled.Add($"{number}:1");
        }

        await scene.UntilAsync(statistics => statistics.CompletedMessages + cancelled.Count == 500);

        Assert.Equal(500, handler.Handled.Concat(cancelled).Distinct(StringComparer.Ordinal).Count());
        Assert.Equal(0, await scene.Claims.CountAsync("unique_keys") + await scene.Claims.CountAsync("messages"));
    }

    private static Task<bool> CancelAsync(ClaimScene scene, string key) =>
        new PostgresQueueAdmin(scene.Schema.DataSource, scene.Schema.Name).CancelAsync(ClaimScene.QueueName, key, TestContext.Current.CancellationToken);
}
