using BatchKit.Mqtt.Connections;
using BatchKit.TestServers.Network;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Tests.Connections;

public sealed class MqttLinkTests : IDisposable
{
    private const int ConnectionLost = 222;
    private const int SessionTakenOver = 2403;
    private const int EndedAgain = 2405;

    private readonly LinkScene _scene = new();

    public void Dispose() => _scene.Dispose();

    [Fact]
    public async Task Starting_ends_with_the_first_attempt_which_may_fail()
    {
        var port = FreePort.Take(1)[0];
        await using var link = _scene.Link(options => options.Server = new Uri($"mqtt://127.0.0.1:{port}"));

        await link.StartAsync().WithinDeadline();
        var failure = await _scene.User.NextFailureAsync();

        Assert.Contains("nothing listens", failure.Message, StringComparison.Ordinal);
        Assert.Equal(failure.Message, link.Fault);
        Assert.Equal(1, _scene.Log.Count(LinkScene.ConnectFailed));
    }

    [Fact]
    public async Task Failures_in_a_row_step_the_pauses_up_and_are_logged_once()
    {
        var port = FreePort.Take(1)[0];
        await using var link = _scene.Link(options => options.Server = new Uri($"mqtt://127.0.0.1:{port}"));
        _ = link.StartAsync();

        var pauses = new List<TimeSpan>();
        for (var attempt = 0; attempt < 8; attempt++)
        {
            await _scene.User.NextFailureAsync();
            pauses.Add(await _scene.NextPauseAsync());
        }

        int[] most = [200, 400, 800, 1600, 3200, 5000, 5000, 5000];
        Assert.All(pauses.Zip(most), pair => Assert.InRange(pair.First.TotalMilliseconds, pair.Second / 2, pair.Second));
        Assert.Equal(1, _scene.Log.Count(LinkScene.ConnectFailed));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_connection_that_does_not_last_steps_the_pauses_up_and_is_an_error(bool isSaid)
    {
        await using var link = _scene.Link();
        _ = link.StartAsync();

        var pauses = new List<TimeSpan>();
        for (var connection = 0; connection < 4; connection++)
        {
            using (var broker = await _scene.Broker.WelcomeAsync())
                await broker.WriteAsync(isSaid ? [0xE0, 2, 0x8E, 0] : []);
            pauses.Add(await _scene.NextPauseAsync());
        }

        int[] most = [200, 400, 800, 1600];
        Assert.All(pauses.Zip(most), pair => Assert.InRange(pair.First.TotalMilliseconds, pair.Second / 2, pair.Second));
        Assert.Equal(isSaid ? (4, 0, 0) : (0, 1, 3), (_scene.Log.Count(SessionTakenOver), _scene.Log.Count(ConnectionLost), _scene.Log.Count(EndedAgain)));
        Assert.All(_scene.Log.Entries.Where(static entry => entry.Id is SessionTakenOver or EndedAgain), static entry => Assert.Equal(LogLevel.Error, entry.Level));
    }

    [Fact]
    public async Task A_receiver_whose_session_is_taken_over_again_and_again_tries_ever_more_rarely()
    {
        await using var link = _scene.Link(purpose: MqttLink.Receiver);
        _ = link.StartAsync();

        for (var most = TimeSpan.FromMilliseconds(200); most < LinkScene.KeepAlive; most *= 2)
        {
            using (var broker = await _scene.Broker.WelcomeAsync())
                await broker.WriteAsync(0xE0, 2, 0x8E, 0);
            await _scene.WaitForTimerAsync(most / 2, most);
            _scene.Time.AdvanceToNextTimer();
        }
    }

    [Theory]
    [InlineData(new byte[0])]
    [InlineData(new byte[] { 0xE0, 2, 0x8B, 0 })]
    [InlineData(new byte[] { 0xE0, 2, 0x80, 0 })]
    public async Task A_receiver_whose_connections_end_for_anything_else_is_back_within_the_longest_pause(byte[] end)
    {
        await using var link = _scene.Link(purpose: MqttLink.Receiver);
        _ = link.StartAsync();

        for (var connection = 0; connection < 12; connection++)
        {
            using (var broker = await _scene.Broker.WelcomeAsync())
                await broker.WriteAsync(end);
            await _scene.NextPauseAsync();
        }
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_receiver_of_a_broker_that_was_away_for_long_tries_soon_again_when_two_connections_end(bool isSaid)
    {
        await using var link = _scene.Link(purpose: MqttLink.Receiver);
        _ = link.StartAsync();
        for (var attempt = 0; attempt < 12; attempt++)
        {
            (await _scene.Broker.AcceptAsync()).Dispose();
            await _scene.User.NextFailureAsync();
            await _scene.NextPauseAsync();
        }

        for (var connection = 0; connection < 3; connection++)
        {
            using (var broker = await _scene.Broker.WelcomeAsync())
                await broker.WriteAsync(isSaid ? [0xE0, 2, 0x8E, 0] : []);
            Assert.InRange(await _scene.NextPauseAsync(), LinkScene.LongestPause / 2, LinkScene.LongestPause);
        }
    }

    [Fact]
    public async Task A_connection_that_lasted_begins_the_pauses_anew()
    {
        await using var link = _scene.Link();
        _ = link.StartAsync();
        for (var connection = 0; connection < 3; connection++)
        {
            (await _scene.Broker.WelcomeAsync()).Dispose();
            await _scene.NextPauseAsync();
        }

        using (await _scene.Broker.WelcomeAsync())
        {
            await _scene.WaitForTimerAsync(LinkScene.KeepAlive, LinkScene.KeepAlive);
            _scene.Time.Advance(2 * LinkScene.LongestPause);
        }

        Assert.InRange((await _scene.NextPauseAsync()).TotalMilliseconds, 100, 200);
    }

    [Fact]
    public async Task Its_fault_is_why_there_is_no_connection()
    {
        await using var link = _scene.Link();
        var starting = link.StartAsync();
        using (await _scene.Broker.WelcomeAsync())
        {
            await starting.WithinDeadline();
            Assert.Null(link.Fault);
        }

        await _scene.Log.WaitForAsync(ConnectionLost);
        var lost = link.Fault;
        await _scene.NextPauseAsync();
        using var again = await _scene.Broker.WelcomeAsync();
        await _scene.Log.WaitForAsync(LinkScene.Connected, count: 2);

        Assert.Contains("was lost", lost, StringComparison.Ordinal);
        Assert.Null(link.Fault);
    }

    [Fact]
    public async Task Only_the_first_connection_starts_clean()
    {
        await using var link = _scene.Link(static options => options.CleanStart = true);
        _ = link.StartAsync();
        var flags = new List<byte>();

        for (var connection = 0; connection < 3; connection++)
        {
            using (var broker = await _scene.Broker.AcceptAsync())
            {
                flags.Add((await broker.ReadAsync())[9]);
                await broker.WriteAsync(ConnectionSome.Connack);
            }

            await _scene.NextPauseAsync();
        }

        Assert.Equal([0x02, 0x00, 0x00], flags);
    }

    [Fact]
    public async Task A_user_that_throws_is_logged_and_the_link_goes_on()
    {
        _scene.User.Defect = new InvalidOperationException("defect");
        await using var link = _scene.Link();
        _ = link.StartAsync();
        using var first = await _scene.Broker.WelcomeAsync();

        await _scene.NextPauseAsync();
        using var second = await _scene.Broker.WelcomeAsync();
        await _scene.Log.WaitForAsync(LinkScene.Connected, count: 2);

        Assert.Equal(1, _scene.Log.Count(LinkScene.ServingFailed));
    }
}
