using System.Diagnostics.Metrics;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using MassTransit;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Diagnostics.HealthChecks;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>A node's number on a bus over RabbitMQ, what the callback is told, and failing fast.</summary>
public sealed class NodeLeaseTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task Two_hosts_with_default_numbers_reach_each_other()
    {
        var configure = MassTransitSome.Settings(await fixture.GetAsync(), Some.Name("test"));
        await using var first = await MassTransitNode.StartReadyAsync(1, configure, configureOutput: static output => output.Node = null);
        await using var second = await MassTransitNode.StartReadyAsync(1, configure, configureOutput: static output => output.Node = null);
        var (one, two) = (NodeOf(first), NodeOf(second));

        first.Output.Write(Some.Connection(two), "to two"u8);
        second.Output.Write(Some.Connection(one), "to one"u8);
        await first.Received.WaitForMessagesAsync(1);
        await second.Received.WaitForMessagesAsync(1);

        Assert.NotEqual(one, two);
        Assert.Equal("to one", Assert.Single(first.Received.Texts));
        Assert.Equal("to two", Assert.Single(second.Received.Texts));
    }

    [Fact]
    public async Task A_number_that_is_set_and_taken_stops_the_start_and_is_free_after_a_stop()
    {
        var configure = MassTransitSome.Settings(await fixture.GetAsync(), Some.Name("test"));
        await using (await MassTransitNode.StartReadyAsync(7, configure))
        {
            var refused = await Assert.ThrowsAsync<NodeTakenException>(() => MassTransitNode.StartAsync(7, configure));
            Assert.StartsWith($"Node 7 is held by process {Environment.ProcessId} on", refused.Message, StringComparison.Ordinal);
        }

        await using var next = await MassTransitNode.StartReadyAsync(7, configure);
    }

    [Fact]
    public async Task A_number_that_is_set_and_taken_is_named_however_short_the_time_to_connect_is()
    {
        var (server, prefix) = (await fixture.GetAsync(), Some.Name("test"));
        await using var first = await MassTransitNode.StartReadyAsync(7, MassTransitSome.Settings(server, prefix));
        var hasty = MassTransitSome.Settings(server, prefix, configure: static options => options.RabbitMq!.ConnectTimeout = TimeSpan.FromSeconds(1));

        // A busy machine may be too late to connect.
        await Until.TrueAsync(async () =>
        {
            try
            {
                await using var second = await MassTransitNode.StartAsync(7, hasty);
                return false;
            }
            catch (NodeTakenException)
            {
                return true;
            }
        });
    }

    [Fact]
    public async Task A_stop_that_fails_gives_the_number_back()
    {
        var server = await fixture.GetAsync();
        var options = new MassTransitOptions { Prefix = Some.Name("test"), TopologyCheckInterval = TimeSpan.FromSeconds(1) };
        var bus = Bus.Factory.CreateUsingRabbitMq(configure => ApplicationBusTests.ConnectTo(server, configure));
        await bus.StartAsync().WithinDeadline();
        var failing = new MassTransitReceiver(new FailingConnection(bus, options), new NodeNumber(7), new BatchReceiver(new CollectingTransport()), timeProvider: null, logger: null);
        await failing.StartAsync(CancellationToken.None);
        await failing.WaitUntilReadyAsync().WithinDeadline();

        await Assert.ThrowsAsync<IOException>(() => failing.StopAsync(CancellationToken.None).WithinDeadline());

        await using (await MassTransitNode.StartAsync(7, MassTransitSome.Settings(server, options.Prefix)))
            await bus.StopAsync().WithinDeadline();
    }

    [Fact]
    public async Task A_connection_string_with_several_hosts_finds_the_one_that_works()
    {
        var server = await fixture.GetAsync();
        var configure = MassTransitSome.Settings(server, Some.Name("test"));
        await using var node = await MassTransitNode.StartReadyAsync(7, options =>
        {
            configure(options);
            options.RabbitMq = new MassTransitRabbitMqOptions
            {
                ConnectionString = $"amqp://{server.Address.UserInfo}@127.0.0.1:{FreePort.Take(1)[0]},{server.Host}:{server.Port}{server.Address.AbsolutePath}",
                ReconnectDelay = TimeSpan.FromMilliseconds(100),
            };
        });

        node.Output.Write(Some.Connection(7), "line 0"u8);
        await node.Received.WaitForMessagesAsync(1);

        Assert.Equal(Some.Lines(1), node.Received.Texts);
    }

    [Fact]
    public async Task The_callback_hears_of_each_change_and_may_throw()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var changes = new ConnectionChanges();
        var configure = MassTransitSome.Settings(server, Some.Name("test"));
        await using var node = await MassTransitNode.StartReadyAsync(1, options =>
        {
            configure(options);
            options.RabbitMq!.Port = proxy.Port;
            options.FailFast = true;
            options.ConnectionChanged = changes.AddAndThrow;
        });

        proxy.ResetAll();
        await Until.TrueAsync(() => changes.All.Any(static change => change is { Purpose: "receiver", State: BrokerConnectionState.Restored }));

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored],
            changes.All.Where(static change => change.Purpose == "receiver").Take(3).Select(static change => change.State));
        // The sender may still be about to connect again.
        await node.WaitForHealthAsync(HealthStatus.Degraded, "ConnectionChanged callback");
    }

    [Fact]
    public async Task The_instruments_show_the_loss_and_the_return_of_the_bus_while_nothing_is_sent()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var configure = MassTransitSome.Settings(server, Some.Name("test"));
        await using var node = await MassTransitNode.StartReadyAsync(1, options =>
        {
            configure(options);
            (options.RabbitMq!.Port, options.RabbitMq.ConnectTimeout) = (proxy.Port, TimeSpan.FromSeconds(1));
        });
        using var readings = new ConnectionReadings(node.Services.GetRequiredService<IMeterFactory>());

        await readings.AssertOutageAsync(() =>
        {
            proxy.Stall();
            proxy.ResetAll();
        }, proxy.Resume, $"RabbitMQ at {server.Host}:{proxy.Port}", "masstransit", down: ["receiver", "sender"], open: ["receiver", "sender"]);
    }

    [Fact]
    public async Task A_host_that_fails_fast_does_not_start_without_its_broker()
    {
        var port = FreePort.Take(1)[0];

        var failed = await Assert.ThrowsAsync<IOException>(() => MassTransitNode.StartAsync(1, options =>
        {
            options.FailFast = true;
            options.RabbitMq = new MassTransitRabbitMqOptions { Hosts = [$"127.0.0.1:{port}"], ConnectTimeout = TimeSpan.FromMilliseconds(500) };
        }));

        Assert.Contains($"RabbitMQ at 127.0.0.1:{port}", failed.Message, StringComparison.Ordinal);
    }

    private static int NodeOf(MassTransitNode node) => node.Services.GetRequiredService<NodeNumber>().Value;

    private sealed class FailingConnection(IBus bus, MassTransitOptions options) : BusConnection(bus, options, new ConnectionAge(TimeProvider.System))
    {
        public override Task DrainAsync(CancellationToken cancellationToken) => throw new IOException("The stop fails.");
    }
}
