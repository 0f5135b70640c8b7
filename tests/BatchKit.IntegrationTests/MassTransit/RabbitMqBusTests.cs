using System.Net;
using System.Net.Sockets;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Buffers over buses of their own on the real RabbitMQ.</summary>
public sealed class RabbitMqBusTests(RabbitMqFixture fixture)
{
    private readonly string _prefix = Some.Name("mt");

    [Fact]
    public async Task A_scope_is_one_persistent_message_at_the_broker_and_arrives_in_order()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var copy = await tap.ListenAsync(1);
        var handle = Some.Connection(1);

        await using (node.Output.BeginBufferingScope(handle))
        {
            foreach (var line in Some.Lines(1000))
                node.Output.Write(handle, Some.Bytes(line));
        }

        await node.Received.WaitForMessagesAsync(1000);
        var message = Assert.Single(await tap.TakeAsync(copy));
        Assert.Equal(Some.Lines(1000), node.Received.TextsFor(handle));
        Assert.Equal(
            ("application/vnd.batchkit.frame", "batchkit.frame", "batchkit"), (message.BasicProperties.ContentType, message.BasicProperties.Type, message.BasicProperties.AppId));
        Assert.True(message.BasicProperties.Persistent);
        Assert.Equal(0u, await tap.CountAsync(node.Receiver.Queue));
    }

    [Fact]
    public async Task The_frame_is_the_whole_body()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options => options.Durable = true));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var copy = await tap.ListenAsync(1);
        var batch = Some.Batch(Some.Connection(1), Some.Producer(), 1, Some.Lines(100));

        await node.Transport.SendAsync(new[] { batch }, CancellationToken.None);

        var message = Assert.Single(await tap.TakeAsync(copy));
        Assert.Equal(Some.Frame(batch), message.Body.ToArray());
        Assert.DoesNotContain(message.BasicProperties.Headers ?? new Dictionary<string, object?>(StringComparer.Ordinal), header => header.Key == "MT-Host-Info");
    }

    [Fact]
    public async Task Output_for_a_node_that_is_gone_is_refused_and_its_neighbours_arrive()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options => options.UnroutableGrace = TimeSpan.Zero));
        var gone = Some.Connection(2);
        var here = Some.Connection(1);
        var producer = Some.Producer();

        var failure = await Assert.ThrowsAsync<BatchKit.Transports.BatchSendException>(() => node.Transport.SendAsync(
            new[] { Some.Batch(gone, producer, 1, "lost"), Some.Batch(here, producer, 2, "first"), Some.Batch(Some.Group(), producer, 3, "to all"), Some.Batch(here, producer, 4, "last") },
            CancellationToken.None).WithinDeadline());

        Assert.Equal(["Refused", "Acknowledged", "Acknowledged", "Acknowledged"], failure.Outcomes.Select(outcome => outcome.ToString()));
        await node.Received.WaitForMessagesAsync(3);
        Assert.Equal(["first", "to all", "last"], node.Received.Texts);
    }

    [Fact]
    public async Task A_node_whose_queue_was_deleted_is_gone_though_its_exchange_stayed()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options => options.UnroutableGrace = TimeSpan.Zero));
        await using var other = await MassTransitNode.StartReadyAsync(2, MassTransitSome.Settings(server, _prefix));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        await other.Receiver.StopAsync(CancellationToken.None);
        await tap.DeleteQueueAsync(other.Receiver.Queue);
        var gone = Some.Connection(2);

        var scope = node.Output.BeginBufferingScope(gone);
        node.Output.Write(gone, Some.Bytes("lost"));

        await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
        Assert.True(await tap.ExchangeExistsAsync(other.Receiver.Queue));
    }

    [Fact]
    public async Task Two_nodes_get_their_own_output_and_a_groups_once_each_in_order()
    {
        var server = await fixture.GetAsync();
        await using var game = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        await using var second = await MassTransitNode.StartReadyAsync(2, MassTransitSome.Settings(server, _prefix));
        await using var third = await MassTransitNode.StartReadyAsync(3, MassTransitSome.Settings(server, _prefix));
        var room = Some.Group();
        var (atSecond, atThird) = (Some.Connection(2), Some.Connection(3));

        foreach (var line in Some.Lines(200))
        {
            game.Output.Write(atSecond, Some.Bytes(line));
            game.Output.Write(room, Some.Bytes(line));
            game.Output.Write(atThird, Some.Bytes(line));
        }

        await second.Received.WaitForMessagesAsync(400);
        await third.Received.WaitForMessagesAsync(400);
        await game.Received.WaitForMessagesAsync(200);
        Assert.Equal(Some.Lines(200), second.Received.TextsFor(atSecond));
        Assert.Equal(Some.Lines(200), second.Received.TextsFor(room));
        Assert.Equal(Some.Lines(200), third.Received.TextsFor(atThird));
        Assert.Equal(Some.Lines(200), third.Received.TextsFor(room));
        Assert.Equal(Some.Lines(200), game.Received.Texts);
    }

    [Fact]
    public async Task With_a_destination_node_everything_goes_there()
    {
        var server = await fixture.GetAsync();
        await using var game = await MassTransitNode.StartReadyAsync(9, MassTransitSome.Settings(server, _prefix));
        await using var gateway = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options => options.DestinationNode = 9));
        var player = Some.Connection(1);

        gateway.Output.Write(player, Some.Bytes("look"));
        gateway.Output.Write(Some.Group(), Some.Bytes("say hello"));

        await game.Received.WaitForMessagesAsync(2);
        Assert.Equal(["look"], game.Received.TextsFor(player));
    }

    [Fact]
    public async Task What_is_no_frame_is_counted_and_dropped_and_the_next_frame_arrives()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var handle = Some.Connection(1);

        await tap.PublishAsync(node.Receiver.Queue, Some.RandomBytes(100));
        await tap.PublishAsync(node.Receiver.Queue, Some.Bytes("""{"message":{}}"""), "application/vnd.masstransit+json");
        await tap.PublishAsync(node.Receiver.Queue, [], "text/plain");
        node.Output.Write(handle, Some.Bytes("after"));

        await node.Received.WaitForMessagesAsync(1);
        Assert.Equal(3, node.Receiver.GetStatistics().MalformedFrames);
        Assert.Equal(0u, await tap.CountAsync(node.Receiver.Queue));
        Assert.False(await tap.ExchangeExistsAsync($"{node.Receiver.Queue}_error"));
        Assert.False(await tap.ExchangeExistsAsync($"{node.Receiver.Queue}_skipped"));
    }

    [Fact]
    public async Task A_frame_stays_at_the_broker_until_the_next_transport_has_it()
    {
        var server = await fixture.GetAsync();
        StalledSend? stalled = null;
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var first = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options => options.StopTimeout = TimeSpan.FromMilliseconds(100)), next =>
        {
            var scripted = new ScriptedTransport(next);
            stalled = scripted.Stall();
            return scripted;
        });
        var handle = Some.Connection(1);
        first.Output.Write(handle, Some.Bytes("kept"));
        await first.Output.FlushAsync(handle);
        await stalled!.EnteredAsync();

        await first.DisposeAsync();
        await using var second = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));

        await second.Received.WaitForMessagesAsync(1);
        Assert.Equal(["kept"], second.Received.TextsFor(handle));
        Assert.Equal(0, first.Received.MessageCount);
    }

    [Fact]
    public async Task A_send_that_passes_the_frame_limit_is_several_frames_and_a_batch_that_no_frame_can_hold_is_refused()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options => options.MaxFrameBytes = 4096),
            configureOutput: options => options.MaxBatchBytes = 1024);
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var copy = await tap.ListenAsync(1);
        var (handle, producer) = (Some.Connection(1), Some.Producer());
        var texts = Some.Lines(3).Select(line => line.PadRight(1500)).ToArray();

        var failure = await Assert.ThrowsAsync<BatchKit.Transports.BatchSendException>(() => node.Transport.SendAsync(
            texts.Select((text, index) => Some.Batch(handle, producer, index + 1, text)).Append(Some.Batch(handle, producer, 4, new string('x', 5000))).ToArray(),
            CancellationToken.None).WithinDeadline());

        await node.Received.WaitForMessagesAsync(3);
        Assert.Equal(texts, node.Received.Texts);
        Assert.Equal(2, (await tap.TakeAsync(copy)).Count);
        Assert.Equal(["Acknowledged", "Acknowledged", "Acknowledged", "Refused"], failure.Outcomes.Select(outcome => outcome.ToString()));
    }

    [Fact]
    public async Task Partitions_that_share_the_bus_take_turns()
    {
        const int partitions = 16;
        const int enough = 10;
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(await fixture.GetAsync(), _prefix));
        var sent = new int[partitions];

        await Task.WhenAll(Enumerable.Range(0, partitions).Select(partition => Task.Run(async () =>
        {
            var (group, producer) = (Some.Group(), Some.Producer(partition: partition));
            // Each goes on until the last has enough, so that a partition that is starved shows.
            while (Array.Exists(sent, static count => count < enough))
                await node.Transport.SendAsync(new[] { Some.Batch(group, producer, ++sent[partition], "a") }, CancellationToken.None);
        }))).WithinDeadline();

        Assert.All(sent, count => Assert.InRange(count, enough, 10 * enough));
    }

    [Fact]
    public async Task Of_several_hosts_one_that_is_up_is_enough()
    {
        var server = await fixture.GetAsync();
        var down = FreePort.Take(1)[0];
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: options =>
            options.RabbitMq!.Hosts = [$"127.0.0.1:{down}", $"{server.Host}:{server.Port}"]));
        var handle = Some.Connection(1);

        node.Output.Write(handle, Some.Bytes("here"));

        await node.Received.WaitForMessagesAsync(1);
        await node.WaitForHealthAsync(HealthStatus.Healthy);
    }

    [Fact]
    public async Task A_broker_that_is_away_is_logged_once_for_the_sender_and_once_for_the_receiver()
    {
        var log = new LogCollector();
        var options = new MassTransitOptions { RabbitMq = new MassTransitRabbitMqOptions { Hosts = [$"127.0.0.1:{FreePort.Take(1)[0]}"] } };
        await using var services = new ServiceCollection().BuildServiceProvider();
        await using var owner = new BusOwner(services, name: "", options, sends: true, receives: true, TimeProvider.System, log);

        owner.Start();
        await log.WaitForAsync(221, count: 2);

        var purposes = log.Entries.Where(static entry => entry.Id == 221).Select(static entry => entry.Text.Split(' ')[2]);
        Assert.Equal(["receiver", "sender"], purposes.Order(StringComparer.Ordinal));
    }

    [Fact]
    public async Task Each_address_of_a_host_name_is_tried()
    {
        var server = await fixture.GetAsync();
        var options = new MassTransitOptions();
        MassTransitSome.Settings(server, _prefix)(options);
        options.RabbitMq!.Hosts = ["gone.example", $"broker.example:{server.Port}"];
        var closed = IPAddress.Parse("127.0.0.2");

        // The client begins with any of them.
        for (var attempt = 0; attempt < 5; attempt++)
        {
            using var link = new BusLink(options.RabbitMq, "sender", "the broker", new ConnectionAge(TimeProvider.System), TimeProvider.System, NullLogger.Instance,
                (name, _) => name == "broker.example" ? Task.FromResult(new[] { closed, IPAddress.Loopback }) : throw new SocketException((int)SocketError.HostNotFound));
            var bus = RabbitMqBus.Create(options.RabbitMq, "test", link);
            await bus.StartAsync().WithinDeadline();

            await Until.TrueAsync(() => link.IsOpen);

            Assert.Null(link.Failure);
            await bus.StopAsync().WithinDeadline();
        }
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task An_address_that_says_nothing_leaves_time_for_the_next(bool accepts)
    {
        var server = await fixture.GetAsync();
        var other = IPAddress.Parse("127.0.0.5");
        using var silent = new SilentListener(new IPEndPoint(other, server.Port), accepts);
        var options = new MassTransitOptions();
        MassTransitSome.Settings(server, _prefix)(options);
        (options.RabbitMq!.Hosts, options.RabbitMq.ConnectTimeout) = ([$"broker.example:{server.Port}"], TimeSpan.FromSeconds(6));

        // The order is random.
        for (var attempt = 0; attempt < 4; attempt++)
        {
            using var limit = new CancellationTokenSource(options.RabbitMq.ConnectTimeout);
            await using var connection = await RabbitMqBus.ConnectAsync(options.RabbitMq, "test", limit.Token, (_, _) => Task.FromResult(new[] { other, IPAddress.Loopback })).WithinDeadline();
            Assert.True(connection.IsOpen);
        }
    }

    [Fact]
    public async Task Senders_and_receivers_have_a_connection_each_only_where_there_are_both()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddLogging();
        builder.Services.AddBatchKit(static options => options.Node = 2).UseMassTransit(MassTransitSome.Settings(server, _prefix, proxy.Port));
        using var sender = builder.Build();
        await sender.StartAsync().WithinDeadline();
        var health = sender.Services.GetRequiredService<HealthCheckService>();
        await Until.TrueAsync(async () => (await health.CheckHealthAsync()).Status == HealthStatus.Healthy);
        await Until.TrueAsync(() => proxy.OpenConnections == 1);

        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, proxy.Port));
        sender.Services.GetRequiredService<IOutputBuffer>().Write(Some.Connection(1), "arrives"u8);

        await node.Received.WaitForMessagesAsync(1);
        await Until.TrueAsync(() => proxy.OpenConnections == 3);
        await sender.StopAsync().WithinDeadline();
        await Until.TrueAsync(() => proxy.OpenConnections == 2);
    }

    [Fact]
    public async Task Transient_output_is_not_persistent()
    {
        var server = await fixture.GetAsync();
        var settings = MassTransitSome.Settings(server, _prefix, configure: options => options.Durable = false);
        await using var node = await MassTransitNode.StartReadyAsync(1, settings);
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var copy = await tap.ListenAsync(1);
        var handle = Some.Connection(1);

        node.Output.Write(handle, Some.Bytes("here"));

        await node.Received.WaitForMessagesAsync(1);
        Assert.False(Assert.Single(await tap.TakeAsync(copy)).BasicProperties.Persistent);
    }
}
