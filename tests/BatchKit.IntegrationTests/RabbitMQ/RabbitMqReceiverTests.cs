using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;
using RabbitMQ.Client.Exceptions;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

public sealed class RabbitMqReceiverTests(RabbitMqFixture fixture)
{
    private readonly CollectingTransport _arrived = new();

    [Fact]
    public async Task Frames_arrive_once_and_in_order_and_the_queue_is_empty_afterwards()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);

        await SendLinesAsync(transport, count: 500);
        await _arrived.WaitForMessagesAsync(500);

        await receiver.StopAsync(CancellationToken.None);
        Assert.Equal(Some.Lines(500), _arrived.Texts);
        Assert.Equal(0u, await probe.CountAsync(receiver.Queue));
    }

    [Fact]
    public async Task A_receiver_may_be_started_and_stopped_twice_but_not_started_after_its_disposal()
    {
        var server = await fixture.GetAsync();
        await using var receiver = await StartAsync(RabbitMqSome.Options(server), _arrived);

        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await receiver.StopAsync(CancellationToken.None).WithinDeadline();
        await receiver.StopAsync(CancellationToken.None).WithinDeadline();
        await receiver.DisposeAsync().AsTask().WithinDeadline();
        await receiver.StopAsync(CancellationToken.None).WithinDeadline();

        await Assert.ThrowsAsync<ObjectDisposedException>(() => receiver.StartAsync(CancellationToken.None));
    }

    [Fact]
    public async Task Groups_reach_every_node_once_and_connections_their_own()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        var second = new CollectingTransport();
        await using var receiver = await StartAsync(options, _arrived);
        await using var other = await StartAsync(options, second, node: 2);
        await using var transport = new RabbitMqTransport(options);
        var producer = Some.Producer();

        await transport.SendAsync(
            new[]
            {
                Some.Batch(Some.Connection(1), producer, 1, "to 1"),
                Some.Batch(Some.Group(), producer, 2, "to all"),
                Some.Batch(Some.Connection(2), producer, 3, "to 2"),
                Some.Batch(Some.Connection(1), producer, 4, "to 1 again"),
            },
            CancellationToken.None);
        await _arrived.WaitForMessagesAsync(3);
        await second.WaitForMessagesAsync(2);

        Assert.Equal(new[] { "to 1", "to all", "to 1 again" }, _arrived.Texts);
        Assert.Equal(new[] { "to all", "to 2" }, second.Texts);
    }

    [Fact]
    public async Task Malformed_frames_are_rejected_and_logged_once_and_those_behind_them_arrive()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        using var log = new LogCollector();
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        await using var receiver = new RabbitMqReceiver(options, Node, new BatchReceiver(_arrived), logger: new Logger<RabbitMqReceiver>(log));
        await receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await using var transport = new RabbitMqTransport(options);

        for (var frame = 0; frame < 20; frame++)
            await probe.PublishAsync(options, "1", Some.RandomBytes(200));
        await SendLinesAsync(transport, count: 1);
        await _arrived.WaitForMessagesAsync(1);

        await receiver.StopAsync(CancellationToken.None);
        Assert.Equal((20, 1), (receiver.GetStatistics().MalformedFrames, log.Count(204)));
        Assert.Equal(0u, await probe.CountAsync(receiver.Queue));
    }

    [Fact]
    public async Task A_malformed_frame_goes_to_the_dead_letter_exchange_where_there_is_one()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, options => options.DeadLetterExchange = $"{options.Prefix}.dead");
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var dead = await probe.ListenForDeadLettersAsync(options);
        await using var receiver = await StartAsync(options, _arrived);

        await probe.PublishAsync(options, "1", [1, 2, 3]);

        await probe.WaitForCountAsync(dead, 1);
    }

    [Fact]
    public async Task A_frame_whose_next_hop_fails_is_tried_again_in_place()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        var failing = new ScriptedTransport(_arrived).Fail(sends: 2);
        await using var receiver = await StartAsync(options, failing);
        await using var transport = new RabbitMqTransport(options);

        await SendLinesAsync(transport, count: 3);
        await _arrived.WaitForMessagesAsync(3);

        Assert.Equal(Some.Lines(3), _arrived.Texts);
    }

    [Fact]
    public async Task A_stop_lets_the_frame_in_hand_finish()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        await using var receiver = await StartAsync(options, slow);
        await using var transport = new RabbitMqTransport(options);
        await SendLinesAsync(transport, count: 1);
        await stalled.EnteredAsync();

        var stopping = receiver.StopAsync(CancellationToken.None);
        stalled.Release();
        await stopping.WithinDeadline();

        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Equal(0u, await probe.CountAsync(receiver.Queue));
    }

    [Fact]
    public async Task A_stop_abandons_a_frame_that_hangs_and_the_next_receiver_gets_it()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync(), options => options.StopTimeout = TimeSpan.FromMilliseconds(50));
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        await using var receiver = await StartAsync(options, slow);
        await using var transport = new RabbitMqTransport(options);
        await SendLinesAsync(transport, count: 1);
        await stalled.EnteredAsync();

        await receiver.StopAsync(CancellationToken.None).WithinDeadline();
        await using var next = await StartAsync(options, _arrived);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    [Fact]
    public async Task A_second_receiver_of_a_node_is_refused_and_takes_over_when_the_first_has_stopped()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        var second = new CollectingTransport();
        await using var transport = new RabbitMqTransport(options);
        await using var receiver = await StartAsync(options, _arrived);
        await Assert.ThrowsAsync<NodeTakenException>(() => StartAsync(options, second));
        await SendLinesAsync(transport, count: 20);
        await _arrived.WaitForMessagesAsync(20);

        await receiver.StopAsync(CancellationToken.None);
        await SendLinesAsync(transport, count: 20);
        await using var successor = await StartAsync(options, second);
        await second.WaitForMessagesAsync(20);

        Assert.Equal(Some.Lines(20), _arrived.Texts);
        Assert.Equal(Some.Lines(20), second.Texts);
    }

    [Fact]
    public async Task A_lost_connection_is_made_again_and_what_comes_twice_is_dropped()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server);
        var slow = new ScriptedTransport(_arrived);
        var stalled = slow.Stall();
        await using var receiver = await StartAsync(RabbitMqSome.Options(server, proxy.Port, over => over.Prefix = options.Prefix), slow);
        await using var transport = new RabbitMqTransport(options);
        await SendLinesAsync(transport, count: 10);
        await stalled.EnteredAsync();

        proxy.ResetAll();
        stalled.Release();
        await SendLinesAsync(transport, count: 10);
        await _arrived.WaitForMessagesAsync(20);

        Assert.Equal([.. Some.Lines(10), .. Some.Lines(10)], _arrived.Texts);
        Assert.True(receiver.GetStatistics().DuplicateMessages > 0);
    }

    [Fact]
    public async Task A_broker_that_delivers_nothing_although_frames_wait_is_consumed_again()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        var options = RabbitMqSome.Options(server);
        var receiving = RabbitMqSome.Options(server, proxy.Port, over => (over.Prefix, over.Prefetch, over.TopologyCheckInterval) = (options.Prefix, 5, TimeSpan.FromMilliseconds(200)));
        await using var receiver = await StartAsync(receiving, _arrived);
        await using var transport = new RabbitMqTransport(options);

        // As a cluster may lose them. Then the broker waits for the receiver, and the receiver for the broker.
        proxy.LoseAcknowledgements(receiving.Prefetch);
        await SendLinesAsync(transport, count: 10);
        await _arrived.WaitForMessagesAsync(10);

        Assert.Equal(Some.Lines(10), _arrived.Texts);
        Assert.Equal(receiving.Prefetch, receiver.GetStatistics().DuplicateMessages);
    }

    [Fact]
    public async Task A_deleted_queue_is_declared_again()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);

        await probe.DeleteQueueAsync(receiver.Queue);
        await SendUntilRoutedAsync(transport);
        await _arrived.WaitForMessagesAsync(1);

        Assert.Equal(Some.Lines(1), _arrived.Texts);
    }

    [Fact]
    public async Task A_quorum_queue_keeps_its_frames_and_their_order_through_more_lost_connections_than_RabbitMQ_4_allows_by_default()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server, options => options.QueueType = RabbitMqQueueType.Quorum);
        string queue;
        await using (var earlier = await StartAsync(options, _arrived))
            queue = earlier.Queue;
        await using var transport = new RabbitMqTransport(options);
        await SendLinesAsync(transport, count: 10);

        for (var connection = 0; connection < 25; connection++)
        {
            await using var lost = await RabbitMqProbe.ConnectAsync(server);
            await lost.HoldAsync(queue, prefetch: 5);
            await lost.WaitForCountAsync(queue, 5);
        }

        await using var receiver = await StartAsync(options, _arrived);
        await _arrived.WaitForMessagesAsync(10);
        Assert.Equal(Some.Lines(10), _arrived.Texts);
        await using var other = await RabbitMqProbe.ConnectAsync(server);
        var refusal = await Assert.ThrowsAsync<OperationInterruptedException>(() => other.DeclareQueueAsync(options, queue, "1",
            new(StringComparer.Ordinal) { ["x-queue-type"] = "quorum", ["x-single-active-consumer"] = true, ["x-delivery-limit"] = 20, ["x-expires"] = (long)options.QueueExpiry!.Value.TotalMilliseconds }));
        Assert.Contains("x-delivery-limit", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_topology_taken_as_given_is_used()
    {
        var server = await fixture.GetAsync();
        var options = RabbitMqSome.Options(server);
        await (await StartAsync(options, _arrived)).DisposeAsync();
        options.DeclareTopology = false;
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);

        await SendLinesAsync(transport, count: 1);

        await _arrived.WaitForMessagesAsync(1);
    }

    [Fact]
    public async Task A_queue_that_exists_with_other_settings_is_a_fault_that_says_so()
    {
        var options = RabbitMqSome.Options(await fixture.GetAsync());
        await (await StartAsync(options, _arrived)).DisposeAsync();
        options.Durable = false;

        await using var receiver = await CreateAsync(options, _arrived);

        Assert.Contains("PRECONDITION_FAILED", receiver.Fault, StringComparison.Ordinal);
        Assert.Contains("durable", receiver.Fault, StringComparison.Ordinal);
    }
}
