using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.MassTransit;
using BatchKit.Testing;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.RabbitMQ;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.MassTransit;

/// <summary>What holds on RabbitMQ when someone deletes or changes exchanges and queues while both ends run, and when one item is bad.</summary>
public sealed class RabbitMqBusTopologyTests(RabbitMqFixture fixture, OwnRabbitMqFixture own) : IClassFixture<OwnRabbitMqFixture>
{
    private const int Bad = 50;

    private readonly string _prefix = Some.Name("mt");

    [Fact]
    public async Task A_deleted_exchange_is_declared_again_with_its_bindings_and_no_output_is_lost()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, CheckedOften(server));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var group = Some.Group();
        node.Output.Write(group, "before"u8);
        await node.Output.FlushAsync().WithinDeadline();

        await tap.DeleteExchangeAsync($"{_prefix}.direct");
        node.Output.Write(group, "to the group"u8);
        await node.Output.FlushAsync().WithinDeadline();
        node.Output.Write(Some.Connection(1), "to the node"u8);
        await node.Output.FlushAsync().WithinDeadline();

        await node.Received.WaitForMessagesAsync(3);
        Assert.Equal(["before", "to the group", "to the node"], node.Received.Texts);
    }

    [Fact]
    public async Task A_deleted_queue_is_declared_again()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, options =>
        {
            CheckedOften(server)(options);
            options.UnroutableGrace = Deadline.Time;
        });
        await using var tap = await WireTap.ConnectAsync(server, _prefix);

        await tap.DeleteQueueAsync(node.Receiver.Queue);
        node.Output.Write(Some.Connection(1), "to the node"u8);
        await node.Output.FlushAsync().WithinDeadline();

        await node.Received.WaitForMessagesAsync(1);
        Assert.Equal(["to the node"], node.Received.Texts);
    }

    [Fact]
    public async Task A_queue_that_disappears_without_notice_is_declared_and_consumed_again()
    {
        var server = await fixture.GetAsync();
        Assert.SkipUnless(server.IsOwned, "Only a broker that the tests have started can be made to forget a queue.");
        await using var node = await MassTransitNode.StartReadyAsync(1, options =>
        {
            CheckedOften(server)(options);
            options.UnroutableGrace = Deadline.Time;
        });
        node.Output.Write(Some.Connection(1), "before"u8);
        await node.Received.WaitForMessagesAsync(1);

        await server.ForgetQueueAsync(node.Receiver.Queue);
        node.Output.Write(Some.Connection(1), "after"u8);
        await node.Output.FlushAsync().WithinDeadline();

        await node.Received.WaitForMessagesAsync(2);
        await Until.TrueAsync(() => node.Receiver.Fault is null);
        Assert.Equal(["before", "after"], node.Received.Texts);
    }

    [Fact]
    public async Task A_broker_that_delivers_nothing_although_frames_wait_is_consumed_again()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        await using var node = await MassTransitNode.StartReadyAsync(1, options =>
        {
            CheckedOften(server)(options);
            options.RabbitMq!.Port = proxy.Port;
            options.Prefetch = 1;
        });

        // As a cluster may lose it. Then the broker waits for the receiver, and the receiver for the broker.
        proxy.LoseAcknowledgements(1);
        foreach (var line in Some.Lines(3))
        {
            node.Output.Write(Some.Connection(1), Some.Bytes(line));
            await node.Output.FlushAsync().WithinDeadline();
        }

        await node.Received.WaitForMessagesAsync(3);
        await Until.TrueAsync(() => node.Receiver.Fault is null);
        Assert.Equal(Some.Lines(3), node.Received.Texts);
    }

    [Fact]
    public async Task A_broker_that_opens_no_channel_in_time_is_asked_again()
    {
        var server = await fixture.GetAsync();
        await using var proxy = TcpProxy.Start(server.Host, server.Port);
        proxy.LoseChannelOpens(3);

        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, proxy.Port, options => options.RabbitMq!.ConnectTimeout = TimeSpan.FromSeconds(1)));
        node.Output.Write(Some.Connection(1), "arrives"u8);

        await node.Received.WaitForMessagesAsync(1);
    }

    [Fact]
    public async Task An_exchange_that_someone_makes_again_with_another_type_is_a_fault_that_names_the_argument()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, CheckedOften(server));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);

        await tap.DeleteExchangeAsync($"{_prefix}.direct");
        await tap.DeclareExchangeAsync($"{_prefix}.direct", "topic");

        await Until.TrueAsync(() => node.Receiver.Fault?.Contains("'type'", StringComparison.Ordinal) == true);
        await tap.DeleteExchangeAsync($"{_prefix}.direct");
        await Until.TrueAsync(() => node.Receiver.Fault is null);
    }

    [Fact]
    public async Task A_frame_of_the_next_version_is_dropped_counted_and_those_behind_it_arrive()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);

        await tap.PublishAsync(node.Receiver.Queue, RabbitMqSome.FrameOfNextVersion(), "application/vnd.batchkit.frame");
        node.Output.Write(Some.Connection(1), "after"u8);

        await node.Received.WaitForMessagesAsync(1);
        Assert.Equal((1, 1), (node.Receiver.GetStatistics().MalformedFrames, node.Receiver.GetStatistics().ReceivedFrames));
        Assert.Null(node.Receiver.Fault);
    }

    [Fact]
    public async Task A_frame_that_the_broker_rejects_holds_up_those_behind_it_so_that_it_can_be_sent_again()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var full = await tap.DeclareFullAsync(node: 5);
        var (producer, group) = (Some.Producer(), Some.Group());
        var batches = new[] { Some.Batch(Some.Connection(5), producer, 1, "a"), Some.Batch(group, producer, 2, "b") };

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => node.Transport.SendAsync(batches, CancellationToken.None).WithinDeadline());
        var meanwhile = node.Received.MessageCount;
        await tap.TakeAsync(full);
        await node.Transport.SendAsync(batches, CancellationToken.None).WithinDeadline();
        await node.Received.WaitForMessagesAsync(1);

        Assert.Equal([BatchOutcome.Busy, BatchOutcome.Busy], failure.Outcomes);
        Assert.Equal(0, meanwhile);
        Assert.Equal(["b"], node.Received.TextsFor(group));
        Assert.Single(await tap.TakeAsync(full));
    }

    [Fact]
    public async Task A_node_whose_queue_is_full_holds_up_no_other()
    {
        var server = await fixture.GetAsync();
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix));
        await using var tap = await WireTap.ConnectAsync(server, _prefix);
        var full = await tap.DeclareFullAsync(node: 5);
        var (waiting, other) = (Some.Connection(5), Some.Connection(1));
        node.Output.Write(waiting, "waits");

        for (var line = 0; line < 20; line++)
        {
            await using var scope = node.Output.BeginBufferingScope(other);
            node.Output.Write(other, $"line {line}");
        }

        await node.Received.WaitForMessagesAsync(20);
        var health = node.Output.GetHealth();
        await tap.TakeAsync(full);
        await node.Output.FlushAsync(waiting).WithinDeadline();

        Assert.Contains("did not accept a frame for node 5", Assert.Single(health.Reasons), StringComparison.Ordinal);
        Assert.Single(await tap.TakeAsync(full));
        Assert.Equal(21, node.Output.GetStatistics().AcknowledgedMessages);
    }

    [Fact]
    public async Task A_header_that_can_t_be_encoded_is_refused_alone_and_the_99_arrive_in_order()
    {
        var header = new MessageHeader { Type = new string('x', MessageHeader.MaxTextBytes + 1) };

        var failure = await SendHundredAsync(await fixture.GetAsync(), Some.Message("bad", header));

        Assert.Contains("can't be encoded", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_message_above_the_brokers_limit_is_refused_alone_and_the_99_arrive_in_order()
    {
        var server = await own.GetAsync();
        await server.SetMaxMessageBytesAsync(32 * 1024);

        var failure = await SendHundredAsync(server, Some.Message(new string('x', 40_000)));

        Assert.Contains("max size", failure.Message, StringComparison.Ordinal);
    }

    private Action<MassTransitOptions> CheckedOften(RabbitMqServer server) => MassTransitSome.Settings(server, _prefix, configure: options =>
    {
        options.TopologyCheckInterval = TimeSpan.FromMilliseconds(200);
        options.UnroutableGrace = TimeSpan.FromSeconds(2);
    });

    private async Task<BatchSendException> SendHundredAsync(RabbitMqServer server, BatchMessage bad)
    {
        // This send is not repeated, so a broker on a busy machine must not be too late for it.
        await using var node = await MassTransitNode.StartReadyAsync(1, MassTransitSome.Settings(server, _prefix, configure: static options => options.PublishTimeout = Deadline.Time));
        var producer = Some.Producer();
        var batches = Enumerable.Range(0, 100)
            .Select(index => MessageBatch.Create(Some.Connection(1), producer, index + 1, index == Bad ? bad : Some.Message($"line {index}")))
            .ToArray();

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => node.Transport.SendAsync(batches, CancellationToken.None).AsTask().WithinDeadline());

        await node.Received.WaitForMessagesAsync(99);
        Assert.Equal(Enumerable.Range(0, 100).Where(index => index != Bad).Select(index => $"line {index}"), node.Received.Texts);
        Assert.Equal(Enumerable.Range(0, 100).Select(index => index == Bad ? BatchOutcome.Refused : BatchOutcome.Acknowledged), failure.Outcomes);
        return failure;
    }
}
