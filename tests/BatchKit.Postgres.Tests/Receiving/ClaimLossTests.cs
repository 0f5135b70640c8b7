namespace BatchKit.Postgres.Tests.Receiving;

public sealed class ClaimLossTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_claim_is_renewed_for_as_long_as_its_handler_runs()
    {
        // A renewal may be late by two thirds of it.
        var limit = TimeSpan.FromSeconds(5);
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, options => options.ClaimTimeLimit = limit);
        await scene.Claims.InsertAsync("a");
        await scene.StartAsync();
        await began.WithinDeadline();
        var first = await scene.Claims.Schema.ScalarAsync<DateTime>("select until from {s}.claims");

        await Until.TrueAsync(async () => await scene.Claims.Schema.ScalarAsync<DateTime>("select until from {s}.claims") >= first + limit);
        open.SetResult();
        await scene.UntilAsync(static statistics => statistics.CompletedMessages == 1);

        Assert.Equal(["a:1"], handler.Handled);
        Assert.Equal(0, scene.Statistics.LostMessages);
    }

    [Fact]
    public async Task A_handler_whose_claim_is_lost_is_cancelled_and_its_outcome_is_not_sent()
    {
        var began = Signal();
        var handler = new ScriptedHandler(async (_, cancellationToken) =>
        {
            began.TrySetResult();
            await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
        });
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => options.ClaimTimeLimit = TimeSpan.FromSeconds(3));
        await scene.Claims.InsertAsync("a", "b");
        await scene.StartAsync();
        await began.Task.WithinDeadline();

        // Ended alone, it might be renewed before anyone takes it back.
        await scene.Claims.Schema.ExecuteAsync("delete from {s}.claims");
        await scene.UntilAsync(static statistics => statistics.LostMessages == 2);

        Assert.Equal(["a:1", "b:1"], handler.Handled.Order());
        Assert.Equal(1, scene.Log.Count(2626));
        Assert.Equal(0, scene.Log.Count(2627));
        Assert.Equal(0, scene.Statistics.ReleasedMessages + scene.Statistics.CompletedMessages);
    }

    [Fact]
    public async Task A_zombie_that_settles_late_is_refused_and_nothing_is_doubled()
    {
        var (began, open) = (Signal(), Signal());
        var handler = new ScriptedHandler(async (batch, _) =>
        {
            if (batch[0].Attempt > 1)
                return;
            began.TrySetResult();
            await open.Task;
        });
        // A renewal would tell it before it settles.
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => options.ClaimTimeLimit = TimeSpan.FromHours(1));
        await scene.Claims.InsertAsync("a", "b", "c");
        await scene.StartAsync();
        await began.Task.WithinDeadline();

        await scene.Claims.EndClaimsAsync();
        await handler.WaitForAsync(3);
        open.SetResult();
        await scene.Log.WaitForAsync(2627);
        await scene.UntilAsync(static statistics => statistics is { CompletedMessages: 3, LostMessages: 3 });

        Assert.Equal(["a:1", "a:2", "b:1", "b:2", "c:1", "c:2"], handler.Handled.Order());
        Assert.Equal(0, await scene.Claims.CountAsync("messages") + await scene.Claims.CountAsync("claims") + await scene.Claims.CountAsync("dead"));
    }

    private static TaskCompletionSource Signal() => new(TaskCreationOptions.RunContinuationsAsynchronously);
}
