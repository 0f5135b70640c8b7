using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class BatchReceiverTests
{
    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingTransport _collected = new();
    private readonly ScriptedTransport _next;
    private readonly OutputHandle _handle = Some.Connection();
    private readonly ProducerId _producer = Some.Producer(node: 3);

    public BatchReceiverTests() => _next = new ScriptedTransport(_collected);

    [Fact]
    public async Task Batches_reach_the_next_hop_in_order_and_in_one_send()
    {
        var receiver = Receiver();

        await ReceiveAsync(receiver, Batch(1, "a", "b"), Batch(2, "c"));
        await ReceiveAsync(receiver, Batch(5, "d"));

        Assert.Equal(["a", "b", "c", "d"], _collected.TextsFor(_handle));
        Assert.Equal([2, 1], _collected.BatchesOfSends);
    }

    [Fact]
    public async Task What_was_seen_is_dropped_and_counted_when_it_comes_again()
    {
        var receiver = Receiver();
        await ReceiveAsync(receiver, Batch(1, "a"), Batch(2, "b"));

        await ReceiveAsync(receiver, Batch(1, "a"), Batch(2, "b"));
        await ReceiveAsync(receiver, Batch(2, "b"), Batch(3, "c", "d"));

        Assert.Equal(["a", "b", "c", "d"], _collected.Texts);
        var statistics = receiver.GetStatistics();
        Assert.Equal((3, 3), (statistics.DuplicateBatches, statistics.DuplicateMessages));
        Assert.Equal((6, 7), (statistics.ReceivedBatches, statistics.ReceivedMessages));
        Assert.Equal((3, 4), (statistics.DeliveredBatches, statistics.DeliveredMessages));
    }

    [Fact]
    public async Task Producers_partitions_and_epochs_are_numbered_apart()
    {
        var receiver = Receiver();

        foreach (var producer in new[] { _producer, _producer with { Partition = 1 }, _producer with { Epoch = 1 }, _producer with { Node = 4 } })
            await ReceiveAsync(receiver, Some.Batch(_handle, producer, 1, "first of its producer"));

        Assert.Equal(4, _collected.MessageCount);
    }

    [Fact]
    public async Task Nothing_is_filtered_where_the_way_is_not_first_in_first_out()
    {
        var receiver = Receiver(new BatchReceiverOptions { FilterDuplicates = false });

        await ReceiveAsync(receiver, Batch(2, "b"));
        await ReceiveAsync(receiver, Batch(1, "a"));

        Assert.Equal(["b", "a"], _collected.Texts);
    }

    [Fact]
    public async Task A_producer_is_forgotten_after_its_expiry_and_not_before()
    {
        var receiver = Receiver(new BatchReceiverOptions { ProducerExpiry = TimeSpan.FromMinutes(1) });
        await ReceiveAsync(receiver, Batch(1, "a"));

        _clock.Advance(TimeSpan.FromMinutes(1));
        await ReceiveAsync(receiver, Batch(1, "within"));
        _clock.Advance(TimeSpan.FromMinutes(1) + TimeSpan.FromTicks(1));
        await ReceiveAsync(receiver, Batch(1, "after"));

        Assert.Equal(["a", "after"], _collected.Texts);
    }

    [Fact]
    public async Task With_too_many_producers_the_one_silent_for_longest_is_forgotten()
    {
        var receiver = Receiver(new BatchReceiverOptions { MaxProducers = 2 });
        var other = Some.Producer();
        await ReceiveAsync(receiver, Batch(1, "a"));
        await ReceiveAsync(receiver, Some.Batch(_handle, other, 1, "b"));
        await ReceiveAsync(receiver, Batch(2, "c"));

        await ReceiveAsync(receiver, Some.Batch(_handle, Some.Producer(), 1, "d"));
        await ReceiveAsync(receiver, Batch(2, "c again"));
        await ReceiveAsync(receiver, Some.Batch(_handle, other, 1, "b again"));

        Assert.Equal(["a", "b", "c", "d", "b again"], _collected.Texts);
    }

    [Fact]
    public async Task Only_groups_that_this_process_has_delivered_locally_are_dropped()
    {
        var group = Some.Group();
        var receiver = Receiver(new BatchReceiverOptions { IsDeliveredLocally = (producer, handle) => producer == _producer && handle == group });

        await ReceiveAsync(receiver, Some.Batch(group, _producer, 1, "own group"), Batch(2, "own connection"), Some.Batch(Some.Group(), _producer, 3, "own group without a local route"));
        await ReceiveAsync(receiver, Some.Batch(group, Some.Producer(node: 3), 1, "group of the same node number"));

        Assert.Equal(["own connection", "own group without a local route", "group of the same node number"], _collected.Texts);
        Assert.Equal(1, receiver.GetStatistics().OwnGroupBatches);
    }

    [Fact]
    public async Task Calls_that_overlap_are_refused()
    {
        var receiver = Receiver();
        var stalled = _next.Stall();
        var receiving = ReceiveAsync(receiver, Batch(1, "a"));
        await stalled.EnteredAsync();

        await Assert.ThrowsAsync<InvalidOperationException>(() => ReceiveAsync(receiver, Batch(2, "b")));

        stalled.Release();
        await receiving.WithinDeadline();
        await ReceiveAsync(receiver, Batch(2, "b"));
        Assert.Equal(["a", "b"], _collected.Texts);
    }

    [Fact]
    public async Task A_malformed_frame_is_refused_counted_and_harms_nothing()
    {
        var receiver = Receiver();
        var broken = Some.Frame(Batch(1, "a"), Batch(2, "b"))[..^1];

        await Assert.ThrowsAsync<FrameFormatException>(() => receiver.ReceiveAsync(broken, CancellationToken.None).AsTask());
        await ReceiveAsync(receiver, Batch(1, "a"), Batch(2, "b"));

        Assert.Equal(["a", "b"], _collected.Texts);
        var statistics = receiver.GetStatistics();
        Assert.Equal((1, 1), (statistics.MalformedFrames, statistics.ReceivedFrames));
    }

    private BatchReceiver Receiver(BatchReceiverOptions? options = null) => new(_next, options, _clock);

    private MessageBatch Batch(long number, params string[] texts) => Some.Batch(_handle, _producer, number, texts);

    private static Task ReceiveAsync(BatchReceiver receiver, params MessageBatch[] batches) =>
        receiver.ReceiveAsync(Some.Frame(batches), CancellationToken.None).AsTask();
}
