using BatchKit.Mqtt.Connections;
using BatchKit.TestServers.Network;
using BatchKit.TransportSpecification.Support;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt.Tests.Connections;

public sealed class MqttLinkTests : IDisposable
{
    private const int ConnectFailed = 2401;
    private const int ConnectionLost = 2402;
    private const int SessionTakenOver = 2403;
    private const int ServingFailed = 2404;
    private const int EndedAgain = 2405;

    private readonly TimeSpan _keepAlive = TimeSpan.FromSeconds(60);
    private readonly TimeSpan _longestPause = TimeSpan.FromSeconds(5);
    private readonly FakeBroker _broker = new();
    private readonly ManualTimeProvider _time = new();
    private readonly LogCollector _log = new();
    private readonly RecordingUser _user = new();

    public void Dispose()
    {
        _broker.Dispose();
        _log.Dispose();
    }

    [Fact]
    public async Task Starting_ends_with_the_first_attempt_which_may_fail()
    {
        var port = FreePort.Take(1)[0];
        await using var link = Link(options => options.Server = new Uri($"mqtt://127.0.0.1:{port}"));

        await link.StartAsync().WithinDeadline();
        var failure = await _user.NextFailureAsync();

        Assert.Contains("nothing listens", failure.Message, StringComparison.Ordinal);
        Assert.Equal(failure.Message, link.Fault);
        Assert.Equal(1, _log.Count(ConnectFailed));
    }

    [Fact]
    public async Task Failures_in_a_row_step_the_pauses_up_and_are_logged_once()
    {
        var port = FreePort.Take(1)[0];
        await using var link = Link(options => options.Server = new Uri($"mqtt://127.0.0.1:{port}"));
        _ = link.StartAsync();

        var pauses = new List<TimeSpan>();
        for (var attempt = 0; attempt < 8; attempt++)
        {
            await _user.NextFailureAsync();
            pauses.Add(await NextPauseAsync());
        }

        int[] most = [200, 400, 800, 1600, 3200, 5000, 5000, 5000];
        Assert.All(pauses.Zip(most), pair => Assert.InRange(pair.First.TotalMilliseconds, pair.Second / 2, pair.Second));
        Assert.Equal(1, _log.Count(ConnectFailed));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_connection_that_does_not_last_steps_the_pauses_up_and_is_an_error(bool isSaid)
    {
        await using var link = Link();
        _ = link.StartAsync();

        var pauses = new List<TimeSpan>();
        for (var connection = 0; connection < 4; connection++)
        {
            using (var broker = await _broker.WelcomeAsync())
                await broker.WriteAsync(isSaid ? [0xE0, 2, 0x8E, 0] : []);
            pauses.Add(await NextPauseAsync());
        }

        int[] most = [200, 400, 800, 1600];
        Assert.All(pauses.Zip(most), pair => Assert.InRange(pair.First.TotalMilliseconds, pair.Second / 2, pair.Second));
        Assert.Equal(isSaid ? (4, 0, 0) : (0, 1, 3), (_log.Count(SessionTakenOver), _log.Count(ConnectionLost), _log.Count(EndedAgain)));
        Assert.All(_log.Entries.Where(static entry => entry.Id is SessionTakenOver or EndedAgain), static entry => Assert.Equal(LogLevel.Error, entry.Level));
    }

    [Fact]
    public async Task A_connection_that_lasted_begins_the_pauses_anew()
    {
        await using var link = Link();
        _ = link.StartAsync();
        for (var connection = 0; connection < 3; connection++)
        {
            (await _broker.WelcomeAsync()).Dispose();
            await NextPauseAsync();
        }

        using (await _broker.WelcomeAsync())
        {
            await WaitForTimerAsync(_keepAlive, _keepAlive);
            _time.Advance(2 * _longestPause);
        }

        Assert.InRange((await NextPauseAsync()).TotalMilliseconds, 100, 200);
    }

    [Fact]
    public async Task Its_fault_is_why_there_is_no_connection()
    {
        await using var link = Link();
        var starting = link.StartAsync();
        using (await _broker.WelcomeAsync())
        {
            await starting.WithinDeadline();
            Assert.Null(link.Fault);
        }

        await _log.WaitForAsync(ConnectionLost);
        var lost = link.Fault;
        await NextPauseAsync();
        using var again = await _broker.WelcomeAsync();
        await _log.WaitForAsync(2400, count: 2);

        Assert.Contains("was lost", lost, StringComparison.Ordinal);
        Assert.Null(link.Fault);
    }

    [Fact]
    public async Task Only_the_first_connection_starts_clean()
    {
        await using var link = Link(static options => options.CleanStart = true);
        _ = link.StartAsync();
        var flags = new List<byte>();

        for (var connection = 0; connection < 3; connection++)
        {
            using (var broker = await _broker.AcceptAsync())
            {
                flags.Add((await broker.ReadAsync())[9]);
                await broker.WriteAsync(ConnectionSome.Connack);
            }

            await NextPauseAsync();
        }

        Assert.Equal([0x02, 0x00, 0x00], flags);
    }

    [Fact]
    public async Task A_user_that_throws_is_logged_and_the_link_goes_on()
    {
        _user.Defect = new InvalidOperationException("defect");
        await using var link = Link();
        _ = link.StartAsync();
        using var first = await _broker.WelcomeAsync();

        await NextPauseAsync();
        using var second = await _broker.WelcomeAsync();
        await _log.WaitForAsync(2400, count: 2);

        Assert.Equal(1, _log.Count(ServingFailed));
    }

    [Fact]
    public async Task Disposing_says_goodbye_and_connects_no_more()
    {
        var link = Link();
        _ = link.StartAsync();
        using var broker = await _broker.WelcomeAsync();
        await _log.WaitForAsync(2400);

        var disposing = link.DisposeAsync();
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();
        await disposing.WithinDeadline();

        Assert.Equal([0xE0, 7, 0, 5, 0x11, 0, 0, 0, 0], rest);
        Assert.Equal(1, _user.Served);
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (_time.ArmedTimers > 0)
            await Task.Delay(1, deadline.Token);
    }

    [Fact]
    public async Task Disposing_ends_a_pause()
    {
        var link = Link(static options => options.Server = new Uri($"mqtt://127.0.0.1:{FreePort.Take(1)[0]}"));
        await link.StartAsync().WithinDeadline();

        await link.DisposeAsync().WithinDeadline();
    }

    [Fact]
    public async Task Disposing_ends_an_attempt()
    {
        var link = Link();
        var starting = link.StartAsync();
        using var broker = await _broker.AcceptAsync();

        await link.DisposeAsync().WithinDeadline();

        await starting.WithinDeadline();
    }

    [Fact]
    public async Task A_link_that_was_never_started_is_disposed_at_once()
    {
        await Link().DisposeAsync().WithinDeadline();
    }

    // The pause that the link waits out now; moves the clock past it.
    private async Task<TimeSpan> NextPauseAsync()
    {
        await WaitForTimerAsync(TimeSpan.Zero, _longestPause);
        return _time.AdvanceToNextTimer() ?? throw new InvalidOperationException("The link does not pause.");
    }

    // The timers of connecting and of the keep-alive are longer than any pause, which tells them apart.
    private async Task WaitForTimerAsync(TimeSpan least, TimeSpan most)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (_time.ArmedTimers != 1 || _time.NextDue < least || _time.NextDue > most)
            await Task.Delay(1, deadline.Token);
    }

    private MqttLink Link(Action<MqttOptions>? configure = null)
    {
        var options = ConnectionSome.Options(_broker);
        options.ConnectTimeout = TimeSpan.FromMinutes(2);
        options.KeepAlive = _keepAlive;
        options.MaxReconnectDelay = _longestPause;
        configure?.Invoke(options);
        return new MqttLink(options, MqttLink.Transport, "some-client", options.SessionExpiry, _user, _time, _log);
    }
}
