using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>Buffers over a bus that the application has anyway.</summary>
public sealed class ApplicationBusTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    [Fact]
    public async Task Two_nodes_share_an_in_memory_bus_with_the_applications_own_messages()
    {
        var greetings = new TaskCompletionSource<string>(TaskCreationOptions.RunContinuationsAsynchronously);
        var bus = Bus.Factory.CreateUsingInMemory(configure => configure.ReceiveEndpoint("greetings", endpoint => endpoint.Handler<Greeting>(context =>
        {
            greetings.SetResult(context.Message.Text);
            return Task.CompletedTask;
        })));
        await bus.StartAsync().WithinDeadline();
        await using (var first = await MassTransitNode.StartReadyAsync(1, options => options.Bus = _ => bus))
        await using (var second = await MassTransitNode.StartReadyAsync(2, options => options.Bus = _ => bus))
        {
            var (there, room) = (Some.Connection(2), Some.Group());

            first.Output.Write(there, Some.Bytes("to you"));
            first.Output.Write(room, Some.Bytes("to all"));
            await bus.Publish(new Greeting("hello"));

            await second.Received.WaitForMessagesAsync(2);
            await first.Received.WaitForMessagesAsync(1);
            Assert.Equal(["to you", "to all"], second.Received.Texts);
            Assert.Equal(["to all"], first.Received.Texts);
            Assert.Equal("hello", await greetings.Task.WithinDeadline());
        }

        await bus.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_bus_on_RabbitMQ_that_AddMassTransit_made_carries_frames_and_refuses_for_gone_nodes()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(
            1,
            options =>
            {
                options.Prefix = Some.Name("mt");
                options.Bus = services => services.GetRequiredService<IBus>();
                options.UnroutableGrace = TimeSpan.Zero;
            },
            addServices: services => services.AddMassTransit(setup => setup.UsingRabbitMq((_, configure) => ConnectTo(server, configure))));
        var (here, gone) = (Some.Connection(1), Some.Connection(2));

        foreach (var line in Some.Lines(100))
            node.Output.Write(here, Some.Bytes(line));
        var scope = node.Output.BeginBufferingScope(gone);
        node.Output.Write(gone, Some.Bytes("lost"));

        await node.Received.WaitForMessagesAsync(100);
        await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());
        Assert.Equal(Some.Lines(100), node.Received.TextsFor(here));
    }

    [Fact]
    public async Task A_bus_of_another_kind_gets_queue_addresses_and_published_frames_and_prefixes_do_not_mix()
    {
        var bus = Bus.Factory.CreateUsingInMemory(static _ => { });
        await bus.StartAsync().WithinDeadline();
        var (connection, other) = (Connect(bus, "one"), Connect(bus, "two"));
        var (received, receivedByOther) = (new CollectingTransport(), new CollectingTransport());
        await using (var receiver = new MassTransitReceiver(connection, new NodeNumber(1), new BatchReceiver(received), timeProvider: null, logger: null))
        await using (var otherReceiver = new MassTransitReceiver(other, new NodeNumber(1), new BatchReceiver(receivedByOther), timeProvider: null, logger: null))
        {
            await receiver.StartAsync(CancellationToken.None);
            await otherReceiver.StartAsync(CancellationToken.None);
            await Task.WhenAll(receiver.WaitUntilReadyAsync(), otherReceiver.WaitUntilReadyAsync()).WithinDeadline();
            await using var transport = new MassTransitTransport(connection, timeProvider: null);
            await using var otherTransport = new MassTransitTransport(other, timeProvider: null);
            var producer = Some.Producer();

            await transport.SendAsync(new[] { Some.Batch(Some.Connection(1), producer, 1, "to you"), Some.Batch(Some.Group(), producer, 2, "to all") }, CancellationToken.None);
            await otherTransport.SendAsync(new[] { Some.Batch(Some.Group(), producer, 1, "to the others") }, CancellationToken.None);

            await received.WaitForMessagesAsync(2);
            await receivedByOther.WaitForMessagesAsync(1);
            Assert.Equal(["to you", "to all"], received.Texts);
            Assert.Equal(["to the others"], receivedByOther.Texts);
        }

        await bus.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_receiver_connects_its_endpoint_when_the_bus_has_started()
    {
        var bus = Bus.Factory.CreateUsingInMemory(static _ => { });
        await using (var node = await MassTransitNode.StartAsync(1, options => options.Bus = _ => bus))
        {
            var before = bus.CheckHealth().Endpoints.Count;

            await bus.StartAsync().WithinDeadline();
            await node.Receiver.WaitUntilReadyAsync().WithinDeadline();
            node.Output.Write(Some.Connection(1), "arrives"u8);

            await node.Received.WaitForMessagesAsync(1);
            Assert.Equal(before + 1, bus.CheckHealth().Endpoints.Count);
        }

        await bus.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_message_above_the_brokers_limit_is_refused_and_says_why()
    {
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(32 * 1024);
        await using var node = await StartOnRabbitMqAsync(server, server.Port);

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => node.Transport.SendAsync(
            new[] { Some.Batch(Some.Connection(1), Some.Producer(), 1, new string('x', 40_000)) }, CancellationToken.None).AsTask().WithinDeadline());

        Assert.Contains("max size", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    [Trait("Lane", "night: a queue of many frames")]
    public async Task Frames_for_a_full_queue_close_no_channel_of_the_applications_bus()
    {
        var server = await own.GetAsync();
        var prefix = Some.Name("mt");
        await using var tap = await WireTap.ConnectAsync(server, prefix);
        await using var node = await MassTransitNode.StartReadyAsync(
            1,
            options =>
            {
                options.Prefix = prefix;
                options.Bus = services => services.GetRequiredService<IBus>();
            },
            addServices: services => services.AddMassTransit(setup => setup.UsingRabbitMq((_, configure) => ConnectTo(server, configure))));
        await tap.DeclareFullAsync(2);
        var producer = Some.Producer();
        await node.Transport.SendAsync(new[] { Some.Batch(Some.Connection(1), producer, 1, "before") }, CancellationToken.None).AsTask().WithinDeadline();
        var channels = await ListChannelsAsync(server);

        for (var number = 1; number <= 3; number++)
        {
            await Assert.ThrowsAnyAsync<Exception>(() => node.Transport.SendAsync(
                new[] { Some.Batch(Some.Connection(2), Some.Producer(), number, "full") }, CancellationToken.None).AsTask().WithinDeadline());
            await node.Transport.SendAsync(new[] { Some.Batch(Some.Connection(1), producer, 1 + number, $"{number}") }, CancellationToken.None).AsTask().WithinDeadline();
        }

        await node.Received.WaitForMessagesAsync(4);
        Assert.Equal(["before", "1", "2", "3"], node.Received.Texts);
        Assert.Empty(channels.Except(await ListChannelsAsync(server), StringComparer.Ordinal));
    }

    [Fact]
    public async Task A_broker_that_opens_no_channel_in_time_is_asked_again()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var node = await StartOnRabbitMqAsync(server, proxy.Port);

        proxy.LoseChannelOpens(3);
        proxy.ResetAll();
        node.Output.Write(Some.Connection(1), "arrives"u8);

        await node.Received.WaitForMessagesAsync(1);
        await Until.TrueAsync(() => node.Receiver.Fault is null);
    }

    [Fact]
    public async Task A_frame_for_which_a_filter_of_the_bus_throws_comes_again_before_those_behind_it()
    {
        var server = await fixture.GetAsync();
        var deliveries = 0;
        ScriptedTransport? nextHop = null;
        await using var node = await MassTransitNode.StartReadyAsync(
            1,
            options =>
            {
                options.Prefix = Some.Name("mt");
                options.Bus = services => services.GetRequiredService<IBus>();
            },
            wrap: inner => nextHop = new ScriptedTransport(inner),
            addServices: services => services.AddMassTransit(setup => setup.UsingRabbitMq((_, configure) =>
            {
                ConnectTo(server, configure);
                configure.UseExecute(_ =>
                {
                    if (Interlocked.Increment(ref deliveries) == 2)
                        throw new InvalidOperationException("The filter says so.");
                });
            })));
        var held = nextHop!.Stall();

        foreach (var line in Some.Lines(5))
        {
            node.Output.Write(Some.Connection(1), Some.Bytes(line));
            await node.Output.FlushAsync().WithinDeadline();
        }

        await held.EnteredAsync();
        held.Release();
        await node.Received.WaitForMessagesAsync(5);
        Assert.Equal(Some.Lines(5), node.Received.Texts);
        await Until.TrueAsync(() => node.Receiver.Fault is null);
    }

    private static Task<MassTransitNode> StartOnRabbitMqAsync(RabbitMqServer server, int port) => MassTransitNode.StartReadyAsync(
        1,
        options =>
        {
            options.Prefix = Some.Name("mt");
            options.Bus = services => services.GetRequiredService<IBus>();
        },
        addServices: services => services.AddMassTransit(setup => setup.UsingRabbitMq((_, configure) => ConnectTo(server, configure, port))));

    private static async Task<string[]> ListChannelsAsync(RabbitMqServer server) =>
        (await server.ControlAsync("list_channels", "--quiet", "--no-table-headers", "pid").WithinDeadline()).Split('\n', StringSplitOptions.RemoveEmptyEntries);

    internal static void ConnectTo(RabbitMqServer server, IRabbitMqBusFactoryConfigurator bus, int? port = null) =>
        bus.Host(server.Host, (ushort)(port ?? server.Port), server.VirtualHost, host =>
        {
            host.ContinuationTimeout(TimeSpan.FromSeconds(1));
            host.Username(server.UserName);
            host.Password(server.Password);
        });

    private static BusConnection Connect(IBus bus, string prefix)
    {
        var options = new MassTransitOptions { Prefix = prefix };
        return new BusConnection(bus, options, new ConnectionAge(TimeProvider.System)) { Topology = new PublishTopology(options) };
    }
}

/// <summary>A message of an application's own.</summary>
/// <param name="Text">What it says.</param>
public sealed record Greeting(string Text);
