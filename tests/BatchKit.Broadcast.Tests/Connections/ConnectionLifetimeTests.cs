using BatchKit.Broadcast.Receiving;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class ConnectionLifetimeTests
{
    [Fact]
    public async Task A_wire_that_breaks_under_queued_output_ends_the_connection_while_its_handler_is_busy()
    {
        await using var scene = new ConnectionScene { OnReceive = token => Task.Delay(Timeout.Infinite, token) };
        scene.Wire.Limit(0);
        scene.Start();
        await scene.SendAsync("waits");

        scene.Wire.Break();

        // The clock stands still, and the input has not ended: no one but the output tells.
        Assert.Equal(DisconnectReason.ConnectionLost, await scene.Ended.WithinDeadline());
        await scene.WhenFreeAsync();
        Assert.Equal(1, scene.Transport.GetStatistics().FailedMessages);
    }

    [Fact]
    public async Task A_broken_connection_is_free_before_its_handler_has_ended()
    {
        var release = new TaskCompletionSource();
        await using var scene = new ConnectionScene { OnReceive = _ => release.Task };
        scene.Wire.Limit(0);
        scene.Start();
        await scene.SendAsync("waits");

        scene.Wire.Break();
        await scene.WhenFreeAsync();

        Assert.False(scene.Ended.IsCompleted);
        release.SetResult();
        scene.EndInput(InboundEnd.Lost);
        await scene.Running.WithinDeadline();
        Assert.Equal(1, scene.MostCalls);
    }

    [Fact]
    public async Task A_connection_that_starts_after_the_end_of_its_listener_is_closed()
    {
        await using var scene = new ConnectionScene { JoinsGroup = false };
        scene.Lifetime.Stop();

        scene.Start();
        scene.EndInput(InboundEnd.Closed);

        Assert.Equal(DisconnectReason.Stopped, await scene.Ended.WithinDeadline());
    }

    [Theory]
    [InlineData(true, DisconnectReason.NotAuthenticated)]
    [InlineData(false, null)]
    public async Task A_client_whose_handler_asks_for_authentication_has_a_minute_for_it(bool requiresAuthentication, DisconnectReason? expected)
    {
        await using var scene = new ConnectionScene { RequiresAuthentication = requiresAuthentication, JoinsGroup = false };
        scene.Start();

        scene.Clock.Advance(TimeSpan.FromSeconds(58));
        var isEarly = scene.Connection.Closing.IsCompleted;
        scene.Clock.Advance(TimeSpan.FromSeconds(4));

        Assert.False(isEarly);
        Assert.Equal(expected, scene.Connection.Closing.IsCompleted ? await scene.Connection.Closing : null);
    }

    [Fact]
    public async Task A_wire_that_breaks_while_the_connection_is_being_closed_ends_it_at_once()
    {
        await using var scene = new ConnectionScene { OnReceive = token => Task.Delay(Timeout.Infinite, token) };
        scene.Wire.Limit(0);
        scene.Start();
        await scene.SendAsync("waits");
        scene.Connection.Close();

        scene.Wire.Break();

        await scene.WhenFreeAsync();
    }

    [Fact]
    public async Task An_abort_ends_a_connection_that_waits_for_its_client_to_close()
    {
        await using var scene = new ConnectionScene { OnReceive = token => Task.Delay(Timeout.Infinite, token) };
        scene.Start();
        scene.Connection.Close();
        await scene.Connection.Output.Ended.WithinDeadline();

        scene.Connection.Abort();

        await scene.WhenFreeAsync();
    }

    [Fact]
    public async Task The_last_call_waits_for_a_call_that_ignores_the_close_timeout()
    {
        var release = new TaskCompletionSource();
        await using var scene = new ConnectionScene { OnReceive = _ => release.Task };
        scene.Start();

        scene.Connection.Close();
        await scene.Clock.WaitForTimersAsync(2);
        scene.Clock.Advance(scene.Transport.Options.CloseTimeout);
        await scene.WhenFreeAsync();
        Assert.False(scene.Ended.IsCompleted);
        release.SetResult();
        scene.EndInput(InboundEnd.Lost);

        Assert.Equal(DisconnectReason.Closed, await scene.Ended.WithinDeadline());
        Assert.Equal(1, scene.MostCalls);
    }

    [Fact]
    public async Task The_last_call_waits_for_a_finish_that_ignores_the_close_timeout()
    {
        var release = new TaskCompletionSource<bool>();
        await using var scene = new ConnectionScene { OnFinish = _ => release.Task };
        scene.Start();

        scene.EndInput(InboundEnd.Finished);
        await scene.Clock.WaitForTimersAsync(2);
        scene.Clock.Advance(scene.Transport.Options.CloseTimeout);
        await scene.WhenFreeAsync();
        Assert.False(scene.Ended.IsCompleted);
        release.SetResult(true);

        Assert.Equal(DisconnectReason.ClientClosed, await scene.Ended.WithinDeadline());
        Assert.Equal(1, scene.MostCalls);
    }

    [Fact]
    public async Task A_callback_that_throws_at_the_cancellation_lets_the_last_call_wait_all_the_same()
    {
        var release = new TaskCompletionSource();
        await using var scene = new ConnectionScene
        {
            OnReceive = token =>
            {
                token.Register(() => throw new InvalidOperationException("Not what a callback should throw."));
                return release.Task;
            },
        };
        scene.Start();

        scene.Connection.Abort();
        await scene.WhenFreeAsync();
        Assert.False(scene.Ended.IsCompleted);
        release.SetResult();
        scene.EndInput(InboundEnd.Lost);

        Assert.Equal(DisconnectReason.Aborted, await scene.Ended.WithinDeadline());
        Assert.Equal(1, scene.MostCalls);
    }

    [Fact]
    public async Task An_abort_cancels_the_finish()
    {
        await using var scene = new ConnectionScene { OnFinish = async token => await Task.Delay(Timeout.Infinite, token).ContinueWith(_ => true, TaskScheduler.Default) };
        scene.Start();
        scene.EndInput(InboundEnd.Finished);
        await scene.Clock.WaitForTimersAsync(2);

        scene.Connection.Abort();

        Assert.Equal(DisconnectReason.Aborted, await scene.Ended.WithinDeadline());
    }

    [Fact]
    public async Task A_start_that_fails_closes_the_connection_and_its_input_is_read_to_the_end()
    {
        await using var scene = new ConnectionScene { OnStart = _ => Task.FromException(new InvalidOperationException("as told")) };
        scene.Start();

        await scene.Connection.Output.Ended.WithinDeadline();
        Assert.True(scene.Wire.IsFinished);
        Assert.False(scene.Wire.IsAborted);
        scene.EndInput(InboundEnd.Finished);

        Assert.Equal(DisconnectReason.HandlerFailed, await scene.Ended.WithinDeadline());
    }
}
