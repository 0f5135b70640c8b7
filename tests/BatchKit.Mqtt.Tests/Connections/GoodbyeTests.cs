using BatchKit.Diagnostics;
using BatchKit.Mqtt.Connections;
using BatchKit.Testing;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>How a connection that is told to stop ends.</summary>
public class GoodbyeTests : ConnectionTests
{
    [Fact]
    public async Task What_is_queued_goes_out_before_the_goodbye()
    {
        var (connection, broker) = await ConnectAsync();
        var output = connection.Open(source: null);
        var running = connection.RunAsync(new RecordingHandler(), Stop.Token);

        output.Append([0x40, 2, 0, 1]);
        await Stop.CancelAsync();
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();
        await running.WithinDeadline();

        Assert.Equal([0x40, 2, 0, 1, .. ConnectionSome.Goodbye], rest);
    }

    [Fact]
    public async Task It_waits_for_what_the_handler_has_in_hand_and_takes_its_acknowledgement_along()
    {
        var release = new TaskCompletionSource();
        var handler = new RecordingHandler { Release = release.Task };
        var (connection, broker) = await ConnectAsync();
        var output = connection.Open(source: null);
        var running = connection.RunAsync(handler, Stop.Token);
        await broker.WriteAsync(ConnectionSome.Publish(1));
        await handler.Busy.WithinDeadline();

        await Stop.CancelAsync();
        output.Append([0x40, 2, 0, 1]);
        release.SetResult();
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();
        await running.WithinDeadline();

        Assert.Equal([0x40, 2, 0, 1, .. ConnectionSome.Goodbye], rest);
    }

    [Fact]
    public async Task What_arrives_after_the_goodbye_is_read_for_nobody()
    {
        var handler = new RecordingHandler();
        var (_, broker, running) = await RunAsync(handler);

        await Stop.CancelAsync();
        await broker.ReadToEndAsync();
        for (var number = 0; number < 10; number++)
            await broker.WriteAsync(ConnectionSome.Publish(number, payloadBytes: 20_000));
        broker.Dispose();
        var reason = await running.WithinDeadline();

        Assert.Equal(0, handler.Count);
        Assert.Equal("It was stopped.", reason);
    }

    [Fact]
    public async Task A_broker_that_does_not_read_is_not_waited_for_past_the_stop_timeout()
    {
        var time = new ManualTimeProvider();
        var source = new EndlessSource();
        var (connection, broker) = await ConnectAsync(time, static options => options.StopTimeout = TimeSpan.FromSeconds(3));
        var output = connection.Open(source);
        var running = connection.RunAsync(new RecordingHandler(), Stop.Token);
        output.Flush();
        await source.WaitUntilStuckAsync();

        await Stop.CancelAsync();
        await WaitForDueAsync(time, TimeSpan.FromSeconds(3));
        time.Advance(TimeSpan.FromSeconds(3));
        await running.WithinDeadline();
        var fills = source.Fills;
        output.Flush();

        Assert.Equal(fills, source.Fills);
    }

    [Fact]
    public async Task A_broker_that_does_not_close_is_not_waited_for()
    {
        var time = new ManualTimeProvider();
        var (_, broker, running) = await RunAsync(new RecordingHandler(), time);

        await Stop.CancelAsync();
        await broker.ReadToEndAsync();
        await WaitForDueAsync(time, TimeSpan.FromSeconds(1));
        time.Advance(TimeSpan.FromSeconds(1));

        Assert.Equal("It was stopped.", await running.WithinDeadline());
    }

    [Fact]
    public async Task A_connection_that_was_never_run_is_closed_when_it_is_disposed()
    {
        var (connection, broker) = await ConnectAsync();
        connection.Open(source: null);

        await connection.DisposeAsync();

        Assert.Empty(await broker.ReadToEndAsync());
    }

    [Fact]
    public async Task A_stop_ends_a_session_that_no_one_resumes()
    {
        var (connection, broker) = await ConnectWithoutResumeAsync();
        await using var end = connection;
        var running = connection.RunAsync(new RecordingHandler(), Stop.Token);

        await Stop.CancelAsync();
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();
        await running.WithinDeadline();

        Assert.Equal([0xE0, 7, 0, 5, 0x11, 0, 0, 0, 0], rest);
    }

    [Fact]
    public async Task A_broker_that_breaks_the_protocol_is_told_so_and_keeps_the_session()
    {
        var (connection, broker) = await ConnectWithoutResumeAsync();
        await using var end = connection;
        var running = connection.RunAsync(new RecordingHandler(), Stop.Token);

        await broker.WriteAsync(ConnectionSome.PingRequest);
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();
        await running.WithinDeadline();

        Assert.Equal([0xE0, 2, 0x82, 0], rest);
    }

    [Fact]
    public async Task A_connection_that_is_abandoned_keeps_the_session()
    {
        var (connection, broker) = await ConnectWithoutResumeAsync();
        await using var end = connection;
        var running = connection.RunAsync(new RecordingHandler(), Stop.Token);

        connection.Abandon("The test abandoned it.");
        var rest = await broker.ReadToEndAsync();
        broker.Dispose();

        Assert.Equal("The test abandoned it.", await running.WithinDeadline());
        Assert.Equal(ConnectionSome.Goodbye, rest);
    }

    private Task<(MqttConnection Connection, FakeBrokerConnection Broker)> ConnectWithoutResumeAsync() => ConnectAsync(
        new MqttConnector(ConnectionSome.Options(Broker), "some-client", TimeSpan.FromMinutes(5), endsSession: true, will: null, TimeProvider.System, new ObserverFaults()));

    private static Task WaitForDueAsync(ManualTimeProvider time, TimeSpan due) => Until.TrueAsync(() => time.NextDue == due);
}

/// <summary>The same over a connection with a thread of its own.</summary>
public sealed class BlockingGoodbyeTests : GoodbyeTests
{
    protected override bool MayBlock => true;
}
