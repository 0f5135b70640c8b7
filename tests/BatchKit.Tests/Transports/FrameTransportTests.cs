using System.Collections.Concurrent;
using BatchKit.Testing;
using BatchKit.Testing.Specification;
using BatchKit.Transports;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Options;

namespace BatchKit.Tests.Transports;

public sealed class FrameTransportTests : TransportSpecification
{
    private readonly ConcurrentQueue<string> _published = new();
    private readonly ProducerId _producer = Some.Producer();

    protected override TransportPromises Promises =>
        TransportPromises.Ordered | TransportPromises.Once | TransportPromises.AcknowledgesAfterNextHop | TransportPromises.RefusesMissingNodes;

    [Fact]
    public async Task A_publish_that_fails_costs_only_its_own_batches_another_try()
    {
        using var transport = Transport(frame => ThrowIf(frame.Destination.Node == 2, new IOException("Node 2 is slow.")));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, To(1, 1), To(2, 2), To(3, 3)));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Equal("NATS did not accept everything. Node 2 is slow.", exception.Message);
        Assert.IsType<IOException>(exception.InnerException);
    }

    [Fact]
    public async Task Nothing_is_published_behind_a_frame_that_failed_where_it_would_overtake_it()
    {
        using var transport = Transport(frame => ThrowIf(frame.Destination.Node == 2, new IOException("Node 2 is slow.")));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, To(1, 1), To(2, 2), ToAll(3), To(1, 4), To(2, 5)));

        Assert.Equal(["node 1", "node 2"], _published);
        Assert.Equal(
            [BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Unacknowledged],
            exception.Outcomes);
    }

    [Fact]
    public async Task A_refused_frame_does_not_hold_back_those_behind_it()
    {
        using var transport = Transport(frame => ThrowIf(frame.Destination.Node == 2, new FrameRefusedException("Node 2 is gone.")));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, To(2, 1), ToAll(2), To(2, 3)));

        Assert.Equal(["node 2", "all nodes", "node 2"], _published);
        Assert.Equal([BatchOutcome.Refused, BatchOutcome.Acknowledged, BatchOutcome.Refused], exception.Outcomes);
    }

    [Fact]
    public async Task A_send_without_any_success_or_refusal_fails_as_a_whole()
    {
        using var transport = Transport(_ => throw new TimeoutException("No answer."));

        var exception = await Assert.ThrowsAsync<IOException>(() => SendAsync(transport, To(1, 1), ToAll(2)));

        Assert.IsType<TimeoutException>(exception.InnerException);
        Assert.Equal(["node 1"], _published);
    }

    [Fact]
    public async Task A_batch_above_the_largest_frame_is_refused_and_its_neighbours_arrive()
    {
        using var transport = Transport(_ => { }, options => options.MaxFrameBytes = 4096);
        var large = Some.Batch(Some.Connection(1), _producer, 2, new string('x', 5000));

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, To(1, 1), large, To(1, 3)));

        Assert.Equal([BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], exception.Outcomes);
        Assert.Equal(3072, transport.MaxMessageBytes);
    }

    [Fact]
    public async Task Frames_for_different_nodes_are_published_side_by_side_and_those_for_one_receiver_in_turn()
    {
        var entered = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        var released = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        using var transport = new FrameTransport(async (frame, _) =>
        {
            _published.Enqueue(frame.Destination.ToString());
            if (frame.Destination.Node == 2)
                entered.SetResult();
            await released.Task;
        });

        var sending = SendAsync(transport, To(1, 1), To(2, 2), ToAll(3));
        await entered.Task.WithinDeadline();
        string[] publishedEarly = [.. _published];
        released.SetResult();
        await sending;

        Assert.Equal(["node 1", "node 2"], publishedEarly);
        Assert.Equal(["node 1", "node 2", "all nodes"], _published);
    }

    [Fact]
    public async Task With_a_destination_node_everything_goes_there_in_one_frame()
    {
        using var transport = Transport(_ => { }, options => options.DestinationNode = 7);

        await SendAsync(transport, To(1, 1), ToAll(2));

        Assert.Equal(["node 7"], _published);
    }

    [Fact]
    public async Task A_cancelled_send_ends_only_when_its_publish_has_ended()
    {
        using var cancellation = new CancellationTokenSource();
        var released = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        using var transport = new FrameTransport(async (_, cancellationToken) =>
        {
            await released.Task;
            cancellationToken.ThrowIfCancellationRequested();
        });

        var sending = transport.SendAsync(new[] { To(1, 1) }, cancellation.Token).AsTask();
        await cancellation.CancelAsync();
        var endedEarly = sending.IsCompleted;
        released.SetResult();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => sending.WithinDeadline());
        Assert.False(endedEarly);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task What_was_acknowledged_before_the_cancellation_is_not_sent_again(bool stops)
    {
        var clock = new ManualTimeProvider();
        var hangs = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        using var transport = new FrameTransport(async (frame, cancellationToken) =>
        {
            _published.Enqueue(frame.Destination.ToString());
            if (frame.Destination.Node == 2 && hangs.TrySetResult())
                await Task.Delay(Timeout.InfiniteTimeSpan, TimeProvider.System, cancellationToken);
        });
        await using var buffer = new OutputBuffer(transport, timeProvider: clock);
        using (buffer.BeginBufferingScope())
        {
            buffer.Write(Some.Connection(node: 1), "taken");
            buffer.Write(Some.Connection(node: 2), "hangs");
        }

        await hangs.Task.WithinDeadline();
        if (stops)
            await buffer.StopAsync(new CancellationToken(canceled: true)).WithinDeadline();
        for (var flush = buffer.FlushAsync().AsTask().WithinDeadline(); !flush.IsCompleted;)
        {
            clock.Advance(TimeSpan.FromSeconds(1));
            await Task.WhenAny(flush, Task.Delay(1));
        }

        Assert.Equal(stops ? ["node 1", "node 2"] : ["node 1", "node 2", "node 2"], _published);
        var statistics = buffer.GetStatistics();
        Assert.Equal(stops ? (1, 1) : (2, 0), (statistics.AcknowledgedMessages, statistics.StopDroppedMessages));
    }

    [Fact]
    public void Settings_outside_their_range_are_refused()
    {
        Assert.Equal("FrameTransportOptions.MaxFrameBytes (4095) must be between 4096 and 134217728.", Refusal(options => options.MaxFrameBytes = 4095));
        Assert.Equal($"FrameTransportOptions.DestinationNode (-1) must be between 0 and {OutputHandle.MaxNode}.", Refusal(options => options.DestinationNode = -1));
        Assert.StartsWith("FrameTransportOptions.DestinationNode (", Refusal(options => options.DestinationNode = OutputHandle.MaxNode + 1), StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_frame_that_can_never_be_read_is_dropped_counted_and_logged()
    {
        var log = new LogCollector();
        var receiver = new FrameReceiver(new BatchReceiver(NextHop), new Logger<FrameReceiver>(log));

        await receiver.ReceiveAsync(Some.Bytes("not a frame"), CancellationToken.None).WithinDeadline();
        await receiver.ReceiveAsync(Some.Frame(To(1, 1)), CancellationToken.None).WithinDeadline();

        Assert.Equal(["1"], Collected.Texts);
        Assert.Equal((1, 1), (receiver.GetStatistics().MalformedFrames, receiver.GetStatistics().ReceivedFrames));
        Assert.Equal(1, log.Count(204));
    }

    [Fact]
    public async Task A_frame_of_the_next_version_is_dropped_counted_and_logged_and_those_behind_it_arrive()
    {
        var log = new LogCollector();
        var receiver = new FrameReceiver(new BatchReceiver(NextHop), new Logger<FrameReceiver>(log));
        var newer = Some.Frame(To(1, 1));
        newer[3]++;

        await receiver.ReceiveAsync(newer, CancellationToken.None).WithinDeadline();
        await receiver.ReceiveAsync(Some.Frame(To(1, 2)), CancellationToken.None).WithinDeadline();

        Assert.Equal(["2"], Collected.Texts);
        Assert.Equal((1, 1), (receiver.GetStatistics().MalformedFrames, receiver.GetStatistics().ReceivedFrames));
        Assert.Contains("The frame has version", log.Text, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("type")]
    [InlineData("property")]
    [InlineData("kind")]
    public async Task One_batch_among_a_hundred_that_can_t_be_encoded_is_refused_alone_and_the_others_arrive_in_order(string part)
    {
        const int bad = 50;
        var receiver = new FrameReceiver(new BatchReceiver(NextHop));
        var tooLong = new string('x', MessageHeader.MaxTextBytes + 1);
        var header = part switch
        {
            "type" => new MessageHeader { Type = tooLong },
            "property" => new MessageHeader { Properties = [new("name", tooLong)] },
            _ => new MessageHeader { Kind = (MessageKind)9 },
        };
        using var transport = new FrameTransport((frame, cancellationToken) => receiver.ReceiveAsync(frame.Bytes, cancellationToken));
        var batches = Enumerable.Range(1, 100).Select(number => number == bad ? MessageBatch.Create(Some.Connection(1), _producer, number, Some.Message("bad", header)) : To(1, number)).ToArray();

        var exception = await Assert.ThrowsAsync<BatchSendException>(() => SendAsync(transport, batches));

        Assert.Equal(Enumerable.Range(1, 100).Where(number => number != bad).Select(number => $"{number}"), Collected.Texts);
        Assert.Equal(Enumerable.Range(1, 100).Select(number => number == bad ? BatchOutcome.Refused : BatchOutcome.Acknowledged), exception.Outcomes);
        Assert.Contains("can't be encoded", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_logger_that_throws_stops_no_receiver_and_is_counted()
    {
        var failing = new ScriptedTransport(NextHop).Fail();
        var receiver = new BatchReceiver(failing, new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1) }, logger: new Logger<BatchReceiver>(new ThrowingLoggers()));

        await receiver.ReceiveAsync(Some.Frame(To(1, 1)), CancellationToken.None).AsTask().WithinDeadline();

        Assert.Equal(["1"], Collected.Texts);
        Assert.True(receiver.GetStatistics().ObserverFaults > 0);
    }

    [Fact]
    public async Task A_registered_pair_carries_a_buffers_output_over_the_delegate()
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddBatchKit(options => options.Node = 1)
            .UseFrameTransport(services => (frame, cancellationToken) => services.GetRequiredService<FrameReceiver>().ReceiveAsync(frame.Bytes, cancellationToken))
            .AddFrameReceiver(_ => NextHop, options => options.RetryDelay = TimeSpan.FromMilliseconds(1));
        using var host = application.Build();
        await host.StartAsync(TestContext.Current.CancellationToken);

        host.Services.GetRequiredService<IOutputBuffer>().Write(Connection(), "over the bus");
        await host.StopAsync(TestContext.Current.CancellationToken);

        Assert.Equal(["over the bus"], Collected.Texts);
        Assert.Equal(1, host.Services.GetRequiredService<FrameReceiver>().GetStatistics().DeliveredMessages);
    }

    protected override ValueTask<TransportHarness> CreateAsync(IBatchTransport nextHop) =>
        ValueTask.FromResult<TransportHarness>(new BusHarness(nextHop, ReceiverNode, Surroundings));

    private static void ThrowIf(bool fails, Exception failure)
    {
        if (fails)
            throw failure;
    }

    private static Task SendAsync(FrameTransport transport, params MessageBatch[] batches) => transport.SendAsync(batches, CancellationToken.None).WithinDeadline();

    private string Refusal(Action<FrameTransportOptions> configure) =>
        Assert.Throws<OptionsValidationException>(() => Transport(_ => { }, configure)).Message;

    private FrameTransport Transport(Action<OutgoingFrame> publish, Action<FrameTransportOptions>? configure = null)
    {
        var options = new FrameTransportOptions { BusName = "NATS" };
        configure?.Invoke(options);
        return new FrameTransport(
            (frame, _) =>
            {
                _published.Enqueue(frame.Destination.ToString());
                publish(frame);
                return ValueTask.CompletedTask;
            },
            options);
    }

    private MessageBatch To(int node, long number) => Some.Batch(Some.Connection(node), _producer, number, $"{number}");

    private MessageBatch ToAll(long number) => Some.Batch(Some.Group(), _producer, number, $"{number}");

    /// <summary>The simplest bus: publishing is receiving, and a node without a receiver is refused.</summary>
    private sealed class BusHarness : TransportHarness
    {
        private readonly BatchReceiverOptions _receiving = new() { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(5) };
        private readonly FrameTransportOptions _sending = new();
        private readonly FrameReceiver _receiver;
        private readonly FrameTransport _transport;

        public BusHarness(IBatchTransport nextHop, int receiverNode, Surroundings surroundings)
        {
            var batches = new BatchReceiver(nextHop, _receiving, surroundings.TimeProvider, surroundings.CreateLogger<BatchReceiver>());
            _receiver = new FrameReceiver(batches, surroundings.CreateLogger<FrameReceiver>());
            _transport = new FrameTransport(
                (frame, cancellationToken) => frame.Destination.IsAll || frame.Destination.Node == receiverNode
                    ? _receiver.ReceiveAsync(frame.Bytes, cancellationToken)
                    : throw new FrameRefusedException($"{frame.Destination} has no receiver."),
                _sending);
        }

        public override IReadOnlyList<object> Options => [_receiving, _sending];

        public override IBatchTransport Transport => _transport;

        public override ValueTask DisposeTransportAsync()
        {
            _transport.Dispose();
            return ValueTask.CompletedTask;
        }

        public override ValueTask DisposeAsync() => DisposeTransportAsync();
    }
}
