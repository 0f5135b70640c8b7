using BatchKit.Postgres.Schema;
using BatchKit.Postgres.Sending;

namespace BatchKit.Postgres.Tests.Receiving;

/// <summary>Messages that become due later are handled then, however long the poll interval is.</summary>
public sealed class DueTests(PostgresFixture fixture)
{
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task A_message_that_failed_before_another_was_completed_is_tried_again_after_its_pause(int prefetch)
    {
        var handler = new ScriptedHandler(static (batch, _) =>
        {
            if (ClaimScene.TextOf(batch[0]) == "a" && batch[0].Attempt == 1)
                batch[0].Retry("once");
            return ValueTask.CompletedTask;
        });
        await using var scene = await OpenAsync(handler, prefetch);
        await scene.Claims.InsertAsync("a", "b");

        await NotifyAsync(scene);
        await handler.WaitForAsync(3);

        Assert.Equal(["a:1", "b:1", "a:2"], handler.Handled);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task A_delayed_message_that_was_notified_of_is_handled_when_it_is_due(int prefetch)
    {
        var handler = new ScriptedHandler();
        await using var scene = await OpenAsync(handler, prefetch);
        await scene.Claims.InsertDelayedAsync("later", TimeSpan.FromMilliseconds(300));

        await NotifyAsync(scene);

        await handler.WaitForAsync(1);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public async Task A_delayed_message_that_was_sent_with_one_that_is_not_is_handled_when_it_is_due(int prefetch)
    {
        var handler = new ScriptedHandler();
        await using var scene = await OpenAsync(handler, prefetch);
        await scene.Claims.InsertDelayedAsync("later", TimeSpan.FromMilliseconds(300));
        await scene.Claims.InsertAsync("now");

        await NotifyAsync(scene);
        await handler.WaitForAsync(2);

        Assert.Equal(["now:1", "later:1"], handler.Handled);
    }

    private async Task<ReceiverScene> OpenAsync(ScriptedHandler handler, int prefetch)
    {
        var scene = await ReceiverScene.OpenAsync(fixture, handler, options =>
        {
            (options.Concurrency, options.BatchSize, options.Prefetch) = (1, 1, prefetch);
            (options.PollInterval, options.RetryDelay) = (TimeSpan.FromMinutes(5), TimeSpan.FromMilliseconds(100));
        });
        await scene.StartAsync();
        await Until.TrueAsync(async () => await scene.Claims.Schema.ScalarAsync<long>($"select count(*) from pg_stat_activity where query = 'listen \"{ChannelOf(scene)}\"'") > 0);
        return scene;
    }

    private static Task NotifyAsync(ReceiverScene scene) => scene.Claims.Schema.ExecuteAsync($"select pg_notify('{ChannelOf(scene)}', '{scene.Claims.Queue.Id}')");

    private static string ChannelOf(ReceiverScene scene) => NotificationChannel.Of(new Tables(scene.Claims.Schema.Name));
}
