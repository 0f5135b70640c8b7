using System.Globalization;
using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using RabbitMQ.Client;
using RabbitMQ.Client.Events;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A connection of the application that recovers itself, with its channels and consumers.</summary>
[Trait("Lane", "faults: connections are cut again and again")]
public sealed class RecoveringConnectionTests(RabbitMqFixture fixture)
{
    private static readonly int Resets = int.Parse(Environment.GetEnvironmentVariable("BATCHKIT_TEST_RESETS") ?? "30", CultureInfo.InvariantCulture);

    private readonly string _name = Some.Name("test");

    [Fact]
    public async Task It_is_used_again_and_has_one_consumer_a_queue_and_no_more_channels_however_often_it_recovers()
    {
        var server = await fixture.GetAsync();
        Assert.SkipUnless(server.IsOwned, "Only a broker that the tests have started tells its channels.");
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var connection = await ConnectAsync(server, proxy);
        var changes = new ConnectionChanges();
        var options = new RabbitMqOptions
        {
            Connection = connection,
            Prefix = _name,
            ReconnectDelay = TimeSpan.FromMilliseconds(10),
            MaxReconnectDelay = TimeSpan.FromMilliseconds(100),
            PublishTimeout = TimeSpan.FromSeconds(2),
            ConnectionChanged = changes.Add,
        };
        await using var path = await RabbitMqPath.StartAsync(options, options);
        path.Output.Write(Some.Connection(RabbitMqPath.Node), "line 0"u8);
        await path.Arrived.WaitForMessagesAsync(1);
        var channels = await CountChannelsAsync(server);

        for (var reset = 1; reset <= Resets; reset++)
        {
            proxy.ResetAll();
            path.Output.Write(Some.Connection(RabbitMqPath.Node), Some.Bytes($"line {reset}"));
            await path.Arrived.WaitForMessagesAsync(reset + 1);
        }

        Assert.Equal(Some.Lines(Resets + 1), path.Arrived.Texts);
        await using var other = await new ConnectionFactory { Uri = server.Address }.CreateConnectionAsync();
        await using var channel = await other.CreateChannelAsync();
        foreach (var queue in new[] { path.Receiver.Queue, $"{_name}.lease.{RabbitMqPath.Node}" })
            await Until.TrueAsync(async () => (await channel.QueueDeclarePassiveAsync(queue)).ConsumerCount == 1, queue);
        await Until.TrueAsync(async () => await CountChannelsAsync(server) == channels);
        await Until.TrueAsync(() => changes.All.Count(static change => change.State == BrokerConnectionState.Restored) >= 2);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_node_has_its_grace_again_after_a_recovery_while_nothing_is_sent(bool isSentBeforeBatchKitIsTold)
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var connection = await ConnectAsync(server, proxy);
        var options = new RabbitMqOptions { Connection = connection, Prefix = _name };
        var time = new ManualTimeProvider();
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var queue = await probe.ListenAsync(options, $"{Node}");
        RabbitMqTransport? sending = null;
        var outcome = new TaskCompletionSource<BatchOutcome>();
        if (isSentBeforeBatchKitIsTold)
            connection.RecoverySucceededAsync += SendAsync;
        await using var transport = sending = new RabbitMqTransport(options, time);
        if (!isSentBeforeBatchKitIsTold)
            connection.RecoverySucceededAsync += SendAsync;
        await SendLinesAsync(transport, count: 1);
        await probe.DeleteQueueAsync(queue);
        time.Advance(options.UnroutableGrace);

        proxy.ResetAll();
        var first = await outcome.Task.WithinDeadline();
        await Until.TrueAsync(async () =>
        {
            time.Advance(options.UnroutableGrace);
            return await FailAsync() == BatchOutcome.Refused;
        });

        Assert.Equal(BatchOutcome.Busy, first);

        async Task SendAsync(object sender, AsyncEventArgs recovered) => outcome.TrySetResult(await FailAsync());

        async Task<BatchOutcome> FailAsync() =>
            Assert.Single((await Assert.ThrowsAsync<BatchSendException>(() => SendLinesAsync(sending!, count: 1).WithinDeadline())).Outcomes);
    }

    [Fact]
    public async Task A_handler_of_the_recovery_that_waits_for_output_ends()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var connection = await ConnectAsync(server, proxy);
        var options = new RabbitMqOptions { Connection = connection, Prefix = _name };
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        await probe.ListenAsync(options, $"{Node}");
        RabbitMqTransport? sending = null;
        var handled = new TaskCompletionSource();
        connection.RecoverySucceededAsync += async (_, _) =>
        {
            await SendLinesAsync(sending!, count: 1);
            handled.TrySetResult();
        };
        await using var transport = sending = new RabbitMqTransport(options);
        await SendLinesAsync(transport, count: 1);
        // A send during the outage gives the channel up.
        var failed = new TaskCompletionSource<Exception?>();
        connection.ConnectionShutdownAsync += async (_, _) => failed.TrySetResult(await Record.ExceptionAsync(() => SendLinesAsync(transport, count: 1)));

        proxy.ResetAll();

        Assert.IsAssignableFrom<IOException>(await failed.Task.WithinDeadline());
        await handled.Task.WithinDeadline();
        await SendLinesAsync(transport, count: 1).WithinDeadline();
    }

    private Task<IConnection> ConnectAsync(RabbitMqServer server, TcpProxy proxy) =>
        new ConnectionFactory { Uri = server.Address, Port = proxy.Port, NetworkRecoveryInterval = TimeSpan.FromMilliseconds(20) }.CreateConnectionAsync(_name);

    private async Task<int> CountChannelsAsync(RabbitMqServer server)
    {
        var connections = await server.ControlAsync("list_connections", "user_provided_name", "channels");
        return connections.Split('\n').Where(line => line.StartsWith(_name, StringComparison.Ordinal)).Sum(line => int.Parse(line[_name.Length..], CultureInfo.InvariantCulture));
    }
}
