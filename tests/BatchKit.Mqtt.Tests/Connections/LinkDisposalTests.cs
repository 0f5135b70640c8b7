using BatchKit.Mqtt.Connections;
using BatchKit.TestServers.Network;

namespace BatchKit.Mqtt.Tests.Connections;

public sealed class LinkDisposalTests : IDisposable
{
    private readonly LinkScene _scene = new();

    public void Dispose() => _scene.Dispose();

    [Fact]
    public async Task Disposing_says_goodbye_and_connects_no_more()
    {
        var rest = await DisposeConnectedAsync();

        Assert.Equal([0xE0, 7, 0, 5, 0x11, 0, 0, 0, 0], rest);
        Assert.Equal(1, _scene.User.Served);
        await Until.TrueAsync(() => _scene.Time.ArmedTimers == 0);
    }

    [Fact]
    public async Task Disposing_ends_a_pause()
    {
        var link = _scene.Link(static options => options.Server = new Uri($"mqtt://127.0.0.1:{FreePort.Take(1)[0]}"));
        await link.StartAsync().WithinDeadline();

        await link.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task Disposing_ends_an_attempt()
    {
        var link = _scene.Link();
        var starting = link.StartAsync();
        using var broker = await _scene.Broker.AcceptAsync();

        await link.DisposeAsync().WithinDeadline();

        await starting.WithinDeadline();
    }

    [Fact]
    public async Task An_attempt_that_fails_while_the_link_is_disposed_does_not_fail_that()
    {
        var asked = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var link = _scene.Link(options => options.CredentialsProvider = token =>
        {
            asked.SetResult();
            token.WaitHandle.WaitOne(Deadline.Time);
            throw new InvalidOperationException("defect");
        });
        _ = link.StartAsync();
        await asked.Task.WithinDeadline();

        await link.DisposeAsync().WithinDeadline();

        Assert.Equal(0, _scene.Log.Count(LinkScene.ConnectFailed));
    }

    [Fact]
    public async Task A_user_that_throws_while_the_link_is_disposed_is_logged()
    {
        _scene.User.DefectAtEnd = new InvalidOperationException("defect");

        await DisposeConnectedAsync();

        Assert.Equal(1, _scene.Log.Count(LinkScene.ServingFailed));
    }

    [Fact]
    public async Task A_link_that_was_never_started_is_disposed_at_once()
    {
        await _scene.Link().DisposeAsync().WithinDeadline();
    }

    // Disposes a link that is connected, and returns what the broker read from it.
    private async Task<byte[]> DisposeConnectedAsync()
    {
        var link = _scene.Link();
        _ = link.StartAsync();
        using var broker = await _scene.Broker.WelcomeAsync();
        await _scene.Log.WaitForAsync(LinkScene.Connected);

        var disposing = link.DisposeAsync();
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();
        await disposing.WithinDeadline();
        return rest;
    }
}
