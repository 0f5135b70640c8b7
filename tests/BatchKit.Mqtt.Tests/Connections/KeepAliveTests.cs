using BatchKit.Mqtt.Connections;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Connections;

public class KeepAliveTests : ConnectionTests
{
    private static readonly TimeSpan Interval = TimeSpan.FromSeconds(10);

    private readonly ManualTimeProvider _time = new();

    [Fact]
    public async Task It_pings_after_the_interval_and_again_after_the_answer()
    {
        var handler = new RecordingHandler();
        var (_, broker, running) = await RunAsync(handler);

        for (var round = 0; round < 3; round++)
        {
            await AdvanceAsync(Interval / 2);
            await AdvanceAsync(Interval / 2);
            Assert.Equal(ConnectionSome.PingRequest, await broker.ReadAsync());
            await broker.WriteAsync([.. ConnectionSome.PingResponse, .. ConnectionSome.Publish(round)]);
            await handler.NextAsync();
        }

        Assert.False(running.IsCompleted);
        await StopAsync(running, broker);
    }

    [Fact]
    public async Task A_broker_that_does_not_answer_a_ping_is_dead_after_half_the_interval()
    {
        var (_, broker, running) = await RunAsync(new RecordingHandler());

        await AdvanceAsync(Interval);
        await broker.ReadAsync();
        await AdvanceAsync(Interval / 2);
        var reason = await running.WithinDeadline();

        Assert.Equal("The broker was silent for 00:00:05 after a ping: half of KeepAlive, or of the broker's own.", reason);
    }

    [Fact]
    public async Task The_brokers_own_interval_wins()
    {
        var connecting = CreateConnector(Options(), _time).ConnectAsync(cleanStart: false, CancellationToken.None);
        using var broker = await Broker.AcceptAsync();
        await broker.ReadAsync();
        await broker.WriteAsync(0x20, 6, 0, 0, 3, 0x13, 0, 2);
        await using var connection = await connecting.WithinDeadline();
        var running = connection.RunAsync(new RecordingHandler(), Stop.Token);

        await AdvanceAsync(TimeSpan.FromSeconds(2));
        var packet = await broker.ReadAsync();
        // A reader's own thread may begin to read only now, and silence counts from then.
        await Until.TrueAsync(() =>
        {
            _time.Advance(TimeSpan.FromSeconds(1));
            return running.IsCompleted;
        });

        Assert.Equal(ConnectionSome.PingRequest, packet);
        Assert.Equal("The broker was silent for 00:00:01 after a ping: half of KeepAlive, or of the broker's own.", await running);
    }

    [Fact]
    public async Task A_client_that_only_sends_pings_too_and_finds_a_frozen_broker()
    {
        var source = new EndlessSource();
        var (connection, broker) = await ConnectAsync(_time, static options => options.KeepAlive = Interval);
        var output = connection.Open(source);
        var running = connection.RunAsync(new RecordingHandler(), Stop.Token);
        output.Flush();
        await source.WaitUntilStuckAsync();

        await AdvanceAsync(Interval);
        await AdvanceAsync(Interval / 2);

        Assert.Contains("silent", await running.WithinDeadline(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task While_the_handler_is_busy_it_pings_and_takes_no_silence_for_death()
    {
        var release = new TaskCompletionSource();
        var handler = new RecordingHandler { Release = release.Task };
        var (_, broker, running) = await RunAsync(handler);
        await broker.WriteAsync(ConnectionSome.Publish(1));
        await handler.Busy.WithinDeadline();

        for (var ping = 0; ping < 3; ping++)
        {
            await AdvanceAsync(Interval / 2);
            await AdvanceAsync(Interval / 2);
            Assert.Equal(ConnectionSome.PingRequest, await broker.ReadAsync());
        }

        var wasAlive = !running.IsCompleted;
        release.SetResult();
        await StopAsync(running, broker);

        Assert.True(wasAlive);
    }

    private MqttOptions Options() => new() { Server = Broker.Address, KeepAlive = Interval };

    private Task<(MqttConnection Connection, FakeBrokerConnection Broker, Task<string> Running)> RunAsync(RecordingHandler handler) =>
        RunAsync(handler, _time, static options => options.KeepAlive = Interval);

    // The watcher sleeps on the clock again before the clock moves on.
    private async Task AdvanceAsync(TimeSpan time)
    {
        await _time.WaitForTimersAsync();
        _time.Advance(time);
    }

    private async Task StopAsync(Task<string> running, FakeBrokerConnection broker)
    {
        await Stop.CancelAsync();
        await broker.ReadToEndAsync();
        broker.Dispose();
        await running.WithinDeadline();
    }
}

/// <summary>The same over a connection with a thread of its own.</summary>
public sealed class BlockingKeepAliveTests : KeepAliveTests
{
    protected override bool MayBlock => true;
}
