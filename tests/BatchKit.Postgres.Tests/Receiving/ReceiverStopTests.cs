using BatchKit.TestServers.Network;
using Npgsql;

namespace BatchKit.Postgres.Tests.Receiving;

public sealed class ReceiverStopTests(PostgresFixture fixture)
{
    [Fact]
    public async Task A_stop_lets_handlers_finish_and_settles_what_they_did()
    {
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => (options.Concurrency, options.BatchSize) = (1, 1));
        await scene.Claims.InsertAsync("a", "b");
        await scene.StartAsync();
        await began.WithinDeadline();

        var stopping = scene.StopAsync();
        open.SetResult();
        await stopping;

        Assert.Equal(["a:1"], handler.Handled);
        Assert.Equal("b:0", await scene.Claims.WaitingAsync());
        Assert.Equal(0, await scene.Claims.CountAsync("claims"));
        Assert.NotNull(scene.Receiver.Fault);
    }

    [Fact]
    public async Task A_handler_that_is_cancelled_at_the_stop_gives_back_what_it_did_not_do()
    {
        var began = Signal();
        var handler = new ScriptedHandler(async (batch, cancellationToken) =>
        {
            batch[0].Complete();
            began.TrySetResult();
            await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
        });
        // A second worker could claim what was given back, and give it back too.
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => (options.StopTimeout, options.Concurrency) = (TimeSpan.FromMilliseconds(50), 1));
        await scene.Claims.InsertAsync("a", "b", "c");
        await scene.StartAsync();
        await began.Task.WithinDeadline();

        await scene.StopAsync();

        Assert.Equal("b:0 c:0", await scene.Claims.WaitingAsync());
        Assert.Equal(0, await scene.Claims.CountAsync("claims"));
        Assert.Equal((1, 2, 0), (scene.Statistics.CompletedMessages, scene.Statistics.ReleasedMessages, scene.Statistics.RetriedMessages));
    }

    [Fact]
    public async Task A_stop_while_the_server_is_away_does_not_say_that_receiving_works_again()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var handler = ScriptedHandler.Gated(out var began, out var open);
        var address = new NpgsqlConnectionStringBuilder(server.ConnectionString) { Host = "127.0.0.1", Port = proxy.Port };
        await using var overProxy = NpgsqlDataSource.Create(address);
        await using var scene = await ReceiverScene.OpenAsync(
            fixture, handler, static options => (options.StopTimeout, options.ClaimTimeLimit) = (TimeSpan.FromMilliseconds(50), TimeSpan.FromSeconds(1)), overProxy);
        await scene.Claims.InsertAsync("a");
        await scene.StartAsync();
        await began.WithinDeadline();

        proxy.ForwardTo(FreePort.Take(1)[0]);
        proxy.ResetAll();
        await scene.Log.WaitForAsync(2626);
        await scene.StopAsync();
        open.TrySetResult();

        Assert.Equal((1, 0), (scene.Log.Count(2621), scene.Log.Count(2622)));
    }

    [Fact]
    public async Task A_handler_that_does_not_end_is_left_and_its_messages_given_back()
    {
        var handler = ScriptedHandler.Gated(out var began, out var never);
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => options.StopTimeout = TimeSpan.Zero);
        await scene.Claims.InsertAsync("a");
        await scene.StartAsync();
        await began.WithinDeadline();

        await scene.StopAsync();

        Assert.Equal("a:0", await scene.Claims.WaitingAsync());
        Assert.Equal(1, scene.Log.Count(2629));
        never.SetResult();
    }

    [Fact]
    public async Task What_was_prefetched_is_given_back_at_the_stop()
    {
        var handler = ScriptedHandler.Gated(out var began, out var open);
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => (options.Concurrency, options.BatchSize, options.Prefetch) = (1, 2, 6));
        await scene.Claims.InsertAsync("a", "b", "c", "d", "e", "f");
        await scene.StartAsync();
        await began.WithinDeadline();

        var stopping = scene.StopAsync();
        open.SetResult();
        await stopping;

        Assert.Equal(2, scene.Statistics.CompletedMessages);
        Assert.Equal(4, await scene.Claims.CountAsync("messages"));
        Assert.Equal(4, await scene.Claims.Schema.ScalarAsync<long>("select count(*) from {s}.messages where attempts = 0 and due_at is null"));
        Assert.Equal(0, await scene.Claims.CountAsync("claims"));
    }

    [Fact]
    public async Task The_stops_own_token_cancels_handlers_at_once()
    {
        var began = Signal();
        var handler = new ScriptedHandler(async (_, cancellationToken) =>
        {
            began.TrySetResult();
            await Task.Delay(Timeout.InfiniteTimeSpan, cancellationToken);
        });
        await using var scene = await ReceiverScene.OpenAsync(fixture, handler, static options => options.StopTimeout = TimeSpan.FromHours(1));
        await scene.Claims.InsertAsync("a");
        await scene.StartAsync();
        await began.Task.WithinDeadline();

        await scene.Receiver.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();

        Assert.Equal("a:0", await scene.Claims.WaitingAsync());
    }

    [Fact]
    public async Task It_may_be_started_stopped_and_disposed_twice_and_stopped_without_a_start()
    {
        await using var scene = await ReceiverScene.OpenAsync(fixture, new ScriptedHandler());
        await using var idle = new PostgresQueueReceiver(scene.Claims.Schema.DataSource, scene.Claims.Options, new ScriptedHandler());
        await scene.StartAsync();
        await scene.StartAsync();

        await scene.StopAsync();
        await scene.StopAsync();
        await scene.Receiver.DisposeAsync();
        await scene.Receiver.DisposeAsync();
        await scene.StopAsync();
        await idle.StopAsync(CancellationToken.None);

        Assert.Equal("The receiver has stopped.", scene.Receiver.Fault);
        await Assert.ThrowsAsync<ObjectDisposedException>(scene.StartAsync);
    }

    private static TaskCompletionSource Signal() => new(TaskCreationOptions.RunContinuationsAsynchronously);
}
