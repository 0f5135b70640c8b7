using BatchKit.RabbitMQ;
using BatchKit.Testing;
using BatchKit.Transports;
using RabbitMQ.Client;
using RabbitMQ.Client.Exceptions;
using static BatchKit.IntegrationTests.RabbitMQ.RabbitMqEnds;

namespace BatchKit.IntegrationTests.RabbitMQ;

/// <summary>What holds when exchange, queue or bindings are taken as given, or someone deletes them, or makes them with other arguments, while both ends run.</summary>
public sealed class RabbitMqTopologyTests(RabbitMqFixture fixture)
{
    private readonly CollectingTransport _arrived = new();

    [Theory]
    [InlineData("classic")]
    [InlineData("quorum")]
    public async Task A_given_queue_is_consumed_only_when_no_one_else_holds_its_frames(string type)
    {
        var (options, queue) = await GivenQueueAsync(new(StringComparer.Ordinal) { ["x-queue-type"] = type });
        await using var transport = new RabbitMqTransport(options);
        await SendLinesAsync(transport, count: 40);
        var earlier = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await earlier.HoldAsync(queue, prefetch: 5);

        await using var receiver = await CreateAsync(options, _arrived);
        var faultMeanwhile = receiver.Fault;
        var arrivedMeanwhile = _arrived.MessageCount;
        await earlier.DisposeAsync();
        await _arrived.WaitForMessagesAsync(40);

        Assert.Equal(Some.Lines(40), _arrived.Texts);
        Assert.Equal(0, arrivedMeanwhile);
        Assert.Contains(queue, faultMeanwhile, StringComparison.Ordinal);
        Assert.Contains("other consumers", faultMeanwhile, StringComparison.Ordinal);
        Assert.Null(receiver.Fault);
    }

    [Fact]
    public async Task A_given_queue_without_single_active_consumer_is_consumed_exclusively()
    {
        var (options, queue) = await GivenQueueAsync([]);
        await using var receiver = await StartAsync(options, _arrived);
        await using var other = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());

        var refusal = await Assert.ThrowsAsync<OperationInterruptedException>(() => other.HoldAsync(queue, prefetch: 1));

        Assert.Contains("exclusive", refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_given_queue_with_single_active_consumer_is_consumed_without_a_report_of_a_lost_connection()
    {
        var changes = new ConnectionChanges();
        var (options, _) = await GivenQueueAsync(new(StringComparer.Ordinal) { ["x-single-active-consumer"] = true });
        options.ConnectionChanged = changes.Add;

        await using var receiver = await StartAsync(options, _arrived);

        Assert.Equal([BrokerConnectionState.Connected], changes.States);
    }

    [Fact]
    public async Task A_second_receiver_of_a_given_queue_takes_over_in_order()
    {
        var (options, _) = await GivenQueueAsync(new(StringComparer.Ordinal) { ["x-single-active-consumer"] = true });
        var second = new CollectingTransport();
        await using var receiver = await StartAsync(options, _arrived);
        await using var waiting = await CreateAsync(options, second);

        await AssertTakeOverAsync(options, receiver, _arrived, second);
    }

    [Fact]
    public async Task A_deleted_exchange_is_declared_again_with_its_bindings_and_no_group_output_is_lost()
    {
        var server = await fixture.GetAsync();
        var options = CheckedOften(await OptionsAsync());
        options.UnroutableGrace = TimeSpan.FromSeconds(2);
        await using var probe = await RabbitMqProbe.ConnectAsync(server);
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);
        await using var output = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(20), MaxRetryDelay = TimeSpan.FromMilliseconds(100) });
        var group = Some.Group();
        output.Write(group, "before"u8);
        await output.FlushAsync().WithinDeadline();

        await probe.DeleteExchangeAsync(options);
        output.Write(group, "to the group"u8);
        output.Write(Some.Connection(Node), "to the node"u8);
        await output.FlushAsync().WithinDeadline();

        await _arrived.WaitForMessagesAsync(3);
        Assert.Equal(["before", "to the group", "to the node"], _arrived.Texts);
    }

    [Fact]
    public async Task Output_in_front_of_a_groups_goes_while_the_groups_waits_for_the_bindings_of_its_exchange()
    {
        var options = await OptionsAsync();
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await using var transport = new RabbitMqTransport(options);
        var (producer, group) = (Some.Producer(), Some.Group());
        await probe.ListenAsync(options, "1", "all");
        await transport.SendAsync(new[] { Some.Batch(Some.Connection(1), producer, 1, "before") }, CancellationToken.None).AsTask().WithinDeadline();
        await probe.DeleteExchangeAsync(options);
        await Assert.ThrowsAnyAsync<Exception>(() => transport.SendAsync(new[] { Some.Batch(group, producer, 2, "to all") }, CancellationToken.None).AsTask().WithinDeadline());
        Assert.Null(await transport.FindFaultAsync(CancellationToken.None).WithinDeadline());
        await probe.ListenAsync(options, "1");

        var failure = await Assert.ThrowsAsync<BatchSendException>(() => transport.SendAsync(
            new[] { Some.Batch(Some.Connection(1), producer, 3, "in front"), Some.Batch(group, producer, 4, "to all") }, CancellationToken.None).AsTask().WithinDeadline());

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Busy], failure.Outcomes);
        Assert.Contains("is declared again", failure.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Group_output_that_reaches_no_queue_any_more_is_kept_for_a_while_and_is_then_no_error()
    {
        var options = await OptionsAsync();
        options.UnroutableGrace = TimeSpan.FromMilliseconds(500);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await using var receiver = await StartAsync(options, _arrived);
        await using var transport = new RabbitMqTransport(options);
        var (group, producer) = (Some.Group(), Some.Producer());
        await transport.SendAsync(new[] { Some.Batch(group, producer, 1, "heard") }, CancellationToken.None);
        await receiver.StopAsync(CancellationToken.None);
        await probe.DeleteQueueAsync(receiver.Queue);

        await Assert.ThrowsAsync<BatchSendException>(async () => await transport.SendAsync(new[] { Some.Batch(group, producer, 2, "kept") }, CancellationToken.None));

        await Until.TrueAsync(async () =>
        {
            try
            {
                await transport.SendAsync(new[] { Some.Batch(group, producer, 2, "kept") }, CancellationToken.None);
                return true;
            }
            catch (BatchSendException)
            {
                return false;
            }
        });
    }

    [Theory]
    [InlineData("1")]
    [InlineData("all")]
    public async Task A_deleted_binding_is_made_again(string key)
    {
        var options = CheckedOften(await OptionsAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await using var receiver = await StartAsync(options, _arrived);

        await probe.UnbindAsync(options, receiver.Queue, key);

        var frame = Some.Frame(Some.Batch(Some.Connection(Node), Some.Producer(), 1, "bound again"));
        await Until.TrueAsync(async () =>
        {
            try
            {
                await probe.PublishAsync(options, key, frame);
                return true;
            }
            catch (PublishException)
            {
                return false;
            }
        });
        await _arrived.WaitForMessagesAsync(1);
        Assert.Equal(["bound again"], _arrived.Texts);
    }

    [Fact]
    public async Task An_exchange_that_someone_makes_again_with_another_type_is_a_fault_that_names_the_argument()
    {
        var options = CheckedOften(await OptionsAsync());
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await using var receiver = await StartAsync(options, _arrived);

        await probe.DeleteExchangeAsync(options);
        await probe.DeclareExchangeAsync(options, ExchangeType.Fanout);

        await Until.TrueAsync(() => receiver.Fault?.Contains("'type'", StringComparison.Ordinal) == true);
        await probe.DeleteExchangeAsync(options);
        await Until.TrueAsync(() => receiver.Fault is null);
    }

    [Fact]
    public async Task A_queue_that_someone_makes_again_with_other_arguments_is_a_fault_that_names_the_argument()
    {
        var options = CheckedOften(await OptionsAsync());
        options.QueueExpiry = null;
        options.ReconnectDelay = options.MaxReconnectDelay = TimeSpan.FromSeconds(1);
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await using var receiver = await StartAsync(options, _arrived);

        await probe.DeleteQueueAsync(receiver.Queue);
        await probe.DeclareQueueAsync(options, receiver.Queue, "1");

        await Until.TrueAsync(() => receiver.Fault?.Contains("x-single-active-consumer", StringComparison.Ordinal) == true);
        await probe.DeleteQueueAsync(receiver.Queue);
        await Until.TrueAsync(() => receiver.Fault is null);
    }

    [Fact]
    public async Task A_queue_that_disappears_without_notice_is_declared_and_consumed_again()
    {
        var server = await fixture.GetAsync();
        Assert.SkipUnless(server.IsOwned, "Only a broker that the tests have started can be made to forget a queue.");
        var options = CheckedOften(RabbitMqSome.Options(server));
        await using var path = await RabbitMqPath.StartAsync(options, options);
        var handle = Some.Connection(RabbitMqPath.Node);
        path.Output.Write(handle, "before"u8);
        await path.Arrived.WaitForMessagesAsync(1);

        await server.ForgetQueueAsync(path.Receiver.Queue);
        path.Output.Write(handle, "after"u8);
        await path.Output.FlushAsync().WithinDeadline();

        await path.Arrived.WaitForMessagesAsync(2);
        Assert.Equal(["before", "after"], path.Arrived.Texts);
    }

    [Fact]
    public async Task A_given_exchange_that_is_deleted_is_a_fault_that_names_it()
    {
        var (options, _) = await GivenQueueAsync(new(StringComparer.Ordinal) { ["x-single-active-consumer"] = true });
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await using var receiver = await StartAsync(options, _arrived);

        await probe.DeleteExchangeAsync(options);

        await Until.TrueAsync(() => receiver.Fault?.Contains($"{options.Prefix}.direct", StringComparison.Ordinal) == true);
    }

    private static RabbitMqOptions CheckedOften(RabbitMqOptions options)
    {
        options.TopologyCheckInterval = TimeSpan.FromMilliseconds(200);
        return options;
    }

    private async Task<RabbitMqOptions> OptionsAsync() => RabbitMqSome.Options(await fixture.GetAsync());

    private async Task<(RabbitMqOptions Options, string Queue)> GivenQueueAsync(Dictionary<string, object?> arguments)
    {
        var options = CheckedOften(await OptionsAsync());
        options.DeclareTopology = false;
        var queue = $"{options.Prefix}.node.{Node}";
        await using var probe = await RabbitMqProbe.ConnectAsync(await fixture.GetAsync());
        await probe.DeclareQueueAsync(options, queue, "1", arguments);
        return (options, queue);
    }
}
