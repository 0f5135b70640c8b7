using System.Globalization;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>What holds while the broker is killed and frozen, and its connections are reset and cut.</summary>
[Trait("Lane", "faults: RabbitMQ is killed, frozen and cut again and again")]
public sealed class RabbitMqFaultTests(OwnRabbitMqFixture fixture) : IClassFixture<OwnRabbitMqFixture>
{
    /// <summary>How often the broker is killed: 4 times unless this environment variable says otherwise.</summary>
    private const string KillsVariable = "BATCHKIT_TEST_KILLS";

    /// <summary>How often the broker is frozen: once unless this environment variable says otherwise.</summary>
    private const string FreezesVariable = "BATCHKIT_TEST_FREEZES";

    /// <summary>How often connections are cut: 8 times unless this environment variable says otherwise.</summary>
    private const string CutsVariable = "BATCHKIT_TEST_CUTS";

    /// <summary>By how many seconds a call to a frozen broker may pass its limit: 8 unless this environment variable says otherwise.</summary>
    private const string SlackVariable = "BATCHKIT_TEST_SLACK";

    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(2);

    // Far less than any time-out of the client's own, and by default far more than a machine takes that runs other tests beside this: against hanging, not a measurement.
    private static readonly TimeSpan LimitWithSlack = Limit + TimeSpan.FromSeconds(Read(SlackVariable, 8));

    private static readonly TimeSpan FrozenTime = TimeSpan.FromSeconds(Math.Min(8, LimitWithSlack.TotalSeconds + 1));

    private static int Kills => Read(KillsVariable, 4);

    private static int Freezes => Read(FreezesVariable, 1);

    private static int Cuts => Read(CutsVariable, 8);

    [Fact]
    public async Task Every_message_arrives_once_and_in_order_though_the_broker_is_killed_in_mid_flush()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var path = await RabbitMqPath.StartAsync(options, options);
        OutputHandle[] handles = [Some.Connection(RabbitMqPath.Node), Some.Connection(RabbitMqPath.Node), Some.Group()];
        using var stop = new CancellationTokenSource();
        var writers = Array.ConvertAll(handles, handle => path.WriteUntilAsync(handle, stop.Token));

        for (var kill = 0; kill < Kills; kill++)
        {
            // While the receiver stalls, what the broker confirms stays there: that must survive.
            var stalled = path.NextHop.Stall();
            await stalled.EnteredAsync();
            await path.WaitForAcknowledgedAsync(500);
            if (kill == 0)
                await server.SyncDeclarationsAsync();
            await server.KillAsync();
            stalled.Release();
            await server.StartAsync();
            await path.Arrived.WaitForMessagesAsync(path.Arrived.MessageCount + 500);
        }

        await path.Arrived.WaitForMessagesAsync(path.Arrived.MessageCount + 500);
        await stop.CancelAsync();
        var written = await Task.WhenAll(writers).WithinDeadline();
        await path.Arrived.WaitForMessagesAsync(written.Sum());
        await path.Receiver.StopAsync(CancellationToken.None);
        path.AssertAllAcknowledged();
        for (var index = 0; index < handles.Length; index++)
            Assert.Equal(Some.Lines(written[index]), path.Arrived.TextsFor(handles[index]));
    }

    [Fact]
    public async Task With_transient_queues_a_killed_broker_loses_what_it_held_and_nothing_else()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, options => options.Durable = false);
        await using var path = await RabbitMqPath.StartAsync(options, options);
        var handle = Some.Connection(RabbitMqPath.Node);
        await path.Receiver.StopAsync(CancellationToken.None);
        await WriteAsync(path, handle, "held by the broker");

        // A killed broker forgets what it deleted just before, so the lease of the stopped receiver would be back.
        await server.SyncDeclarationsAsync();
        await server.KillAsync();
        await server.StartAsync();
        await using var receiver = new RabbitMqReceiver(options, RabbitMqPath.Node, new BatchReceiver(path.Arrived));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await WriteAsync(path, handle, "after the restart");
        await path.Arrived.WaitForMessagesAsync(1);

        Assert.Equal(new[] { "after the restart" }, path.Arrived.Texts);
        path.AssertAllAcknowledged();
    }

    [Fact]
    public async Task While_the_broker_is_frozen_no_call_outlives_its_limit_and_afterwards_everything_arrives_once()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, options =>
        {
            options.PublishTimeout = Limit;
            options.ConnectTimeout = Limit;
            options.StopTimeout = Limit;
            ReconnectAtOnce(options);
        });
        await using var path = await RabbitMqPath.StartAsync(options, options);
        var handle = Some.Connection(RabbitMqPath.Node);
        var written = new List<string>();

        for (var freeze = 0; freeze < Freezes; freeze++)
        {
            await WriteAsync(path, handle, $"before {freeze}");
            await FreezeAsync(server, options, path, handle, $"meanwhile {freeze}");
            await WriteAsync(path, handle, $"after {freeze}");
            written.AddRange([$"before {freeze}", $"meanwhile {freeze}", $"after {freeze}"]);
        }

        await path.Arrived.WaitForMessagesAsync(handle, written.Count);
        Assert.Equal(written, path.Arrived.TextsFor(handle));
        path.AssertAllAcknowledged();
    }

    [Theory]
    [InlineData("reset")]
    [InlineData("cut in mid-frame")]
    [InlineData("both ends reset")]
    public async Task Broken_connections_neither_lose_nor_double_nor_reorder(string how)
    {
        var server = await fixture.GetAsync();
        await using var sendingProxy = TcpProxy.Start(server.Host, server.Port);
        await using var receivingProxy = TcpProxy.Start(server.Host, server.Port);
        var sending = RabbitMqSome.Options(server, sendingProxy.Port, ReconnectAtOnce);
        var receiving = RabbitMqSome.Options(server, receivingProxy.Port, options =>
        {
            options.Prefix = sending.Prefix;
            ReconnectAtOnce(options);
        });
        await using var path = await RabbitMqPath.StartAsync(sending, receiving);
        var handle = Some.Connection(RabbitMqPath.Node);
        using var stop = new CancellationTokenSource();
        var writer = path.WriteUntilAsync(handle, stop.Token);
        var random = new Random(20);

        for (var round = 0; round < Cuts; round++)
        {
            await path.Arrived.WaitForMessagesAsync(path.Arrived.MessageCount + 100);
            if (how == "cut in mid-frame")
                sendingProxy.CutAfter(random.Next(1, 2000));
            else
                sendingProxy.ResetAll();
            if (how == "both ends reset")
                receivingProxy.ResetAll();
        }

        await path.Arrived.WaitForMessagesAsync(path.Arrived.MessageCount + 100);
        await stop.CancelAsync();
        var written = await writer.WithinDeadline();
        await path.Arrived.WaitForMessagesAsync(written);
        await path.Receiver.StopAsync(CancellationToken.None);
        Assert.Equal(Some.Lines(written), path.Arrived.Texts);
        path.AssertAllAcknowledged();
        Assert.True(sendingProxy.AcceptedConnections > Cuts / 2, $"Only {sendingProxy.AcceptedConnections} connections were made.");
    }

    [Theory]
    [InlineData("memory")]
    [InlineData("disk")]
    public async Task A_broker_in_alarm_is_named_as_such_and_takes_what_waited_when_that_is_over(string reason)
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, options => options.PublishTimeout = Limit);
        var clock = new ManualTimeProvider();
        await using var path = await RabbitMqPath.StartAsync(options, options);
        await using var transport = new RabbitMqTransport(options, clock);
        var handle = Some.Connection(RabbitMqPath.Node);
        await WriteAsync(path, handle, "before");
        await SendAsync(transport);

        await SetAlarmAsync(isOn: true);
        IOException failure;
        try
        {
            path.Output.Write(handle, "meanwhile"u8);
            var sending = SendAsync(transport);
            // A broker says that it is in alarm when the first message comes, and takes none from then on.
            await Until.TrueAsync(async () => await transport.FindFaultAsync(CancellationToken.None) is not null);
            await Until.TrueAsync(() =>
            {
                clock.Advance(Limit);
                return sending.IsCompleted;
            });
            failure = await Assert.ThrowsAsync<IOException>(() => sending.WithinDeadline());
        }
        finally
        {
            await SetAlarmAsync(isOn: false);
        }

        await WriteAsync(path, handle, "after");
        await path.Arrived.WaitForMessagesAsync(handle, 3);
        Assert.Contains($"accepts no messages now: low on {reason}", failure.Message, StringComparison.Ordinal);
        Assert.Equal(new[] { "before", "meanwhile", "after" }, path.Arrived.TextsFor(handle));

        Task SetAlarmAsync(bool isOn) => reason == "memory" ? server.SetMemoryAlarmAsync(isOn) : server.SetDiskAlarmAsync(isOn);
    }

    [Fact]
    public async Task A_stop_with_the_broker_dead_ends_by_its_limit_and_counts_what_was_left()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var path = await RabbitMqPath.StartAsync(options, options, output => output.DrainTimeout = Limit);
        var handle = Some.Connection(RabbitMqPath.Node);
        await WriteAsync(path, handle, "before");

        await server.KillAsync();
        try
        {
            path.Output.Write(handle, "left"u8);
            await path.Output.StopAsync(CancellationToken.None).WaitAsync(LimitWithSlack);
        }
        finally
        {
            await server.StartAsync();
        }

        var statistics = path.Output.GetStatistics();
        RabbitMqPath.AssertLaw(statistics);
        Assert.Equal(1, statistics.DroppedMessages);
    }

    private static int Read(string variable, int usual) => int.TryParse(Environment.GetEnvironmentVariable(variable), CultureInfo.InvariantCulture, out var given) ? given : usual;

    // The more faults fit into a night.
    private static void ReconnectAtOnce(RabbitMqOptions options) => (options.ReconnectDelay, options.MaxReconnectDelay) = (TimeSpan.FromMilliseconds(20), TimeSpan.FromMilliseconds(200));

    // Everything that waits for the broker, on a connection that is open or not yet made, ends by its own limit.
    private static async Task FreezeAsync(RabbitMqServer server, RabbitMqOptions options, RabbitMqPath path, OutputHandle handle, string text)
    {
        await using var connected = new RabbitMqTransport(options);
        await using var fresh = new RabbitMqTransport(options);
        await using var receiver = new RabbitMqReceiver(options, node: 2, new BatchReceiver(new CollectingTransport()));
        await receiver.StartAsync(CancellationToken.None);
        await SendAsync(connected);

        server.Freeze();
        try
        {
            var thawing = Task.Delay(FrozenTime);
            using var flushLimit = new CancellationTokenSource(Limit);
            path.Output.Write(handle, Some.Bytes(text));
            await Task.WhenAll(
                Assert.ThrowsAsync<IOException>(() => SendAsync(connected).WaitAsync(LimitWithSlack)),
                Assert.ThrowsAsync<IOException>(() => SendAsync(fresh).WaitAsync(LimitWithSlack)),
                Assert.ThrowsAnyAsync<OperationCanceledException>(() => path.Output.FlushAsync(flushLimit.Token).AsTask().WaitAsync(LimitWithSlack)),
                receiver.StopAsync(CancellationToken.None).WaitAsync(LimitWithSlack));
            await thawing;
        }
        finally
        {
            server.Thaw();
        }
    }

    private static async Task WriteAsync(RabbitMqPath path, OutputHandle handle, string text)
    {
        path.Output.Write(handle, Some.Bytes(text));
        await path.Output.FlushAsync().WithinDeadline();
    }

    private static Task SendAsync(RabbitMqTransport transport) =>
        transport.SendAsync(new[] { Some.Batch(Some.Group(), Some.Producer(), 1, "a") }, CancellationToken.None).AsTask();
}
