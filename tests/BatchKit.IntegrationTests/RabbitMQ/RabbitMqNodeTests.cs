using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>A node's number: leased where none is set, checked where one is, and kept while the connection comes and goes.</summary>
public sealed class RabbitMqNodeTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task Two_hosts_with_default_numbers_chat_with_each_other()
    {
        var server = await fixture.GetAsync();
        var prefix = Some.Name("test");
        var (ana, ben) = (new RabbitMqChatter(), new RabbitMqChatter());
        using var first = await ana.StartAsync(server, prefix);
        using var second = await ben.StartAsync(server, prefix);

        await Chatter.AssertChatAsync(ana, ben);
    }

    [Fact]
    public async Task A_number_that_is_set_and_taken_stops_the_start_with_an_error_that_names_both()
    {
        var server = await fixture.GetAsync();
        var prefix = Some.Name("test");
        using var first = await new RabbitMqChatter().StartAsync(server, prefix, node: 7);

        var refused = await Assert.ThrowsAsync<NodeTakenException>(() => new RabbitMqChatter().StartAsync(server, prefix, node: 7));

        var process = $"process {Environment.ProcessId} on {Environment.MachineName} ({AppDomain.CurrentDomain.FriendlyName})";
        Assert.StartsWith($"Node 7 is held by {process}", refused.Message, StringComparison.Ordinal);
        Assert.Contains($"so {process}", refused.Message, StringComparison.Ordinal);
        Assert.Contains("OutputBufferOptions.Node", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_number_that_is_set_and_taken_is_named_however_short_the_time_to_connect_is()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await using var first = await StartAsync(options, new CollectingTransport());
        options.ConnectTimeout = TimeSpan.FromSeconds(1);

        // A busy machine may be too late to connect.
        await Until.TrueAsync(async () =>
        {
            try
            {
                await using var second = await CreateAsync(options, new CollectingTransport());
                return false;
            }
            catch (NodeTakenException)
            {
                return true;
            }
        });
    }

    [Fact]
    [Trait("Lane", "night: a quorum queue expires after 10 s")]
    public async Task A_number_of_a_quorum_queue_is_waited_for_when_its_holder_is_gone()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server, proxy.Port, static options =>
            (options.QueueType, options.Durable, options.FailFast) = (RabbitMqQueueType.Quorum, true, true));
        await using var killed = await StartAsync(options, new CollectingTransport());

        proxy.Stall();
        proxy.ResetAll();
        options.Hosts = [$"{server.Host}:{server.Port}"];

        await using var successor = await StartAsync(options, new CollectingTransport());
    }

    [Fact]
    public async Task A_number_is_free_again_when_its_host_has_stopped()
    {
        var server = await fixture.GetAsync();
        var prefix = Some.Name("test");
        using var first = await new RabbitMqChatter().StartAsync(server, prefix, node: 7);
        await first.StopAsync().WithinDeadline();

        using var second = await new RabbitMqChatter().StartAsync(server, prefix, node: 7);
    }

    [Fact]
    public async Task A_drawn_number_that_is_taken_is_replaced_by_another()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        var drawn = NodeNumber.Draw();
        var taken = drawn.Candidate;
        await using var first = await StartAsync(options, new CollectingTransport(), taken);

        await using var second = new RabbitMqReceiver(options, drawn, new BatchReceiver(new CollectingTransport()));
        await second.StartAsync(CancellationToken.None).WithinDeadline();

        Assert.NotEqual(taken, drawn.Value);
        Assert.NotEqual(first.Queue, second.Queue);
        Assert.Null(second.Fault);
    }

    [Fact]
    public async Task A_drawn_number_that_was_read_and_is_taken_stops_the_start()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        var drawn = NodeNumber.Draw();
        await using var first = await StartAsync(options, new CollectingTransport(), drawn.Value);

        await using var second = new RabbitMqReceiver(options, drawn, new BatchReceiver(new CollectingTransport()));

        await Assert.ThrowsAsync<NodeTakenException>(() => second.StartAsync(CancellationToken.None).WithinDeadline());
    }

    [Fact]
    public async Task A_lost_connection_takes_its_number_back_at_once()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var changes = new ConnectionChanges();
        var options = RabbitMqSome.Options(server, proxy.Port, options => options.ConnectionChanged = changes.Add);
        await using var receiver = await StartAsync(options, new CollectingTransport());

        proxy.ResetAll();
        await changes.WaitAsync(3);

        Assert.Equal([BrokerConnectionState.Connected, BrokerConnectionState.Lost, BrokerConnectionState.Restored], changes.States);
        await Until.TrueAsync(() => receiver.Fault is null);
    }

    [Fact]
    public async Task A_number_that_another_process_took_meanwhile_is_a_fault_until_it_is_free()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server, proxy.Port, options => options.ConnectTimeout = TimeSpan.FromSeconds(3));
        await using var receiver = await StartAsync(options, new CollectingTransport());

        proxy.Stall();
        proxy.ResetAll();
        options.Hosts = [$"{server.Host}:{server.Port}"];
        var other = await StartAsync(options, new CollectingTransport());
        proxy.Resume();
        await Until.TrueAsync(() => receiver.Fault?.Contains("Node 1 is held by", StringComparison.Ordinal) == true);

        await other.DisposeAsync();
        await Until.TrueAsync(() => receiver.Fault is null);
    }

    [Fact]
    public async Task A_receiver_that_waits_for_its_node_takes_over_the_number_and_what_waits_in_its_queue()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        var holder = await StartAsync(options, new CollectingTransport());
        options.WaitsForNode = true;
        var arrived = new CollectingTransport();

        await using var waiting = await CreateAsync(options, arrived);
        Assert.Contains("Node 1 is held by", waiting.Fault, StringComparison.Ordinal);
        await holder.DisposeAsync();
        await using var sender = new RabbitMqTransport(options);
        await SendLinesAsync(sender, 3);

        await arrived.WaitForMessagesAsync(3).WithinDeadline();
        Assert.Equal(["line 0", "line 1", "line 2"], arrived.Texts);

        // The broker delivers before its answer to the subscription is read.
        await Until.TrueAsync(() => waiting.Fault is null);
    }

    /// <summary>A host with one client, as a chat server has many.</summary>
    private sealed class RabbitMqChatter : Chatter
    {
        private readonly RabbitMqTestHost _hosts = new();

        public Task<IHost> StartAsync(RabbitMqServer server, string prefix, int? node = null)
        {
            return StartAsync(_hosts.Build(prefix, rabbit => RabbitMqSome.Configure(rabbit, server, server.Port, prefix), output => output.Node = node,
                builder => builder.UseLocal(_ => Arrived), Arrived));
        }
    }
}
