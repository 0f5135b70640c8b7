using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Tests.Transports;

public sealed class BatchReceiverRetryTests
{
    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingTransport _collected = new();
    private readonly ScriptedTransport _next;
    private readonly OutputHandle _handle = Some.Connection();
    private readonly ProducerId _producer = Some.Producer(node: 3);

    public BatchReceiverRetryTests() => _next = new ScriptedTransport(_collected);

    [Fact]
    public async Task A_failing_next_hop_is_tried_again_in_place_until_it_takes_the_frame()
    {
        var receiver = Receiver();
        _next.Fail(sends: 3);

        var receiving = ReceiveAsync(receiver, Batch(1, "a"), Batch(2, "b"));
        for (var failure = 1; failure <= 3; failure++)
        {
            await _clock.WaitForTimersAsync();
            Assert.Equal(failure, receiver.GetStatistics().ConsecutiveFailures);
            Assert.Empty(_collected.Texts);
            _clock.AdvanceToNextTimer();
        }

        await receiving.WithinDeadline();
        Assert.Equal(["a", "b"], _collected.Texts);
        Assert.Equal(0, receiver.GetStatistics().ConsecutiveFailures);
    }

    [Fact]
    public async Task Pauses_grow_between_tries_within_their_limits()
    {
        var receiver = Receiver(new BatchReceiverOptions { RetryDelay = TimeSpan.FromSeconds(1), MaxRetryDelay = TimeSpan.FromSeconds(4) });
        _next.Fail(sends: 5);

        var receiving = ReceiveAsync(receiver, Batch(1, "a"));
        var pauses = new List<TimeSpan>();
        for (var failure = 1; failure <= 5; failure++)
        {
            await _clock.WaitForTimersAsync();
            pauses.Add(_clock.AdvanceToNextTimer()!.Value);
        }

        await receiving.WithinDeadline();
        double[] longest = [1, 2, 4, 4, 4];
        Assert.All(pauses, (pause, index) => Assert.InRange(pause.TotalSeconds, longest[index] / 2, longest[index]));
    }

    [Fact]
    public async Task A_pause_below_a_millisecond_is_not_cut_to_none()
    {
        var shortest = TimeSpan.FromMilliseconds(1);
        var receiver = Receiver(new BatchReceiverOptions { RetryDelay = shortest, MaxRetryDelay = shortest });
        var sends = 0;
        for (var failure = 0; failure < 20; failure++)
        {
            _next.Then((_, _) =>
            {
                sends++;
                return ValueTask.FromException(new IOException("The script says that this send fails."));
            });
        }

        var receiving = ReceiveAsync(receiver, Batch(1, "a"));
        for (var failure = 1; failure <= 20; failure++)
        {
            Assert.Equal(failure, sends);
            _clock.Advance(shortest);
        }

        await receiving.WithinDeadline();
        Assert.Equal(["a"], _collected.Texts);
    }

    [Fact]
    public async Task What_the_next_hop_acknowledged_or_refused_is_not_sent_again()
    {
        var receiver = Receiver();
        _next.Answer(BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Unacknowledged);

        var receiving = ReceiveAsync(receiver, Batch(1, "a"), Batch(2, "b", "bb"), Batch(3, "c"), Batch(4, "d"));
        await _clock.WaitForTimersAsync();
        _clock.AdvanceToNextTimer();
        await receiving.WithinDeadline();

        Assert.Equal(["a", "c", "d"], _collected.Texts);
        var statistics = receiver.GetStatistics();
        Assert.Equal((1, 2), (statistics.RefusedBatches, statistics.RefusedMessages));
        Assert.Equal((3, 3), (statistics.DeliveredBatches, statistics.DeliveredMessages));
    }

    [Fact]
    public async Task A_refused_batch_counts_as_seen_and_needs_no_further_try()
    {
        var receiver = Receiver();
        _next.Answer(BatchOutcome.Refused);

        await ReceiveAsync(receiver, Batch(1, "refused")).WithinDeadline();
        await ReceiveAsync(receiver, Batch(1, "refused"), Batch(2, "taken"));

        Assert.Equal(["taken"], _collected.Texts);
    }

    [Fact]
    public async Task Refused_messages_of_an_acknowledged_batch_count_as_refused_and_their_neighbours_as_delivered()
    {
        var log = new LogCollector();
        var receiver = new BatchReceiver(_next, options: null, _clock, new Logger<BatchReceiver>(log));
        _next.Then((_, _) => throw new BatchSendException(
            [BatchOutcome.Acknowledged, BatchOutcome.Refused, BatchOutcome.Acknowledged], "Two are bad.",
            refusedMessages: [new(0, 1), new(2, 0), new(0, 1), new(1, 0), new(0, 3), new(2, -1), new(3, 0), new(-1, 0)]));

        await ReceiveAsync(receiver, Batch(1, "a", "bad", "c"), Batch(2, "refused", "too"), Batch(3, "bad")).WithinDeadline();

        var statistics = receiver.GetStatistics();
        Assert.Equal((2, 2), (statistics.DeliveredBatches, statistics.DeliveredMessages));
        Assert.Equal((1, 4), (statistics.RefusedBatches, statistics.RefusedMessages));
        Assert.Equal(1, log.Count(202));
    }

    [Fact]
    public async Task A_batch_with_refused_messages_counts_as_seen()
    {
        var receiver = Receiver();
        _next.Then((_, _) => throw new BatchSendException([BatchOutcome.Acknowledged], "One is bad.", refusedMessages: [new(0, 0)]));

        await ReceiveAsync(receiver, Batch(1, "bad", "good")).WithinDeadline();
        await ReceiveAsync(receiver, Batch(1, "bad", "good"), Batch(2, "next")).WithinDeadline();

        Assert.Equal(["next"], _collected.Texts);
    }

    [Fact]
    public async Task A_cancelled_receive_leaves_nothing_seen()
    {
        var receiver = Receiver();
        using var cancellation = new CancellationTokenSource();
        var stalled = _next.Stall();
        var receiving = receiver.ReceiveAsync(Some.Frame(Batch(1, "a"), Batch(2, "b")), cancellation.Token).AsTask();
        await stalled.EnteredAsync();

        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => receiving.WithinDeadline());
        await ReceiveAsync(receiver, Batch(1, "a"), Batch(2, "b"));

        Assert.Equal(["a", "b"], _collected.Texts);
        Assert.Equal(2, receiver.GetStatistics().AbandonedBatches);
    }

    [Fact]
    public async Task A_receive_cancelled_half_way_remembers_exactly_what_the_next_hop_has()
    {
        var receiver = Receiver();
        using var cancellation = new CancellationTokenSource();
        _next.Answer(BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged, BatchOutcome.Acknowledged, BatchOutcome.Unacknowledged);
        MessageBatch[] batches = [Batch(1, "a"), Batch(2, "b"), Batch(3, "c"), Batch(4, "d")];
        var receiving = receiver.ReceiveAsync(Some.Frame(batches), cancellation.Token).AsTask();
        await _clock.WaitForTimersAsync();

        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => receiving.WithinDeadline());
        await ReceiveAsync(receiver, batches);
        await ReceiveAsync(receiver, batches);

        Assert.Equal(["a", "c", "b", "d"], _collected.Texts);
    }

    [Fact]
    public async Task A_failure_after_cancellation_ends_as_cancelled()
    {
        var receiver = Receiver();
        using var cancellation = new CancellationTokenSource();
        var stalled = _next.Stall(ignoresCancellation: true);
        var receiving = receiver.ReceiveAsync(Some.Frame(Batch(1, "a")), cancellation.Token).AsTask();
        await stalled.EnteredAsync();

        await cancellation.CancelAsync();
        stalled.Fail();

        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => receiving.WithinDeadline());
    }

    [Fact]
    public async Task A_hop_that_gives_up_by_itself_is_tried_again()
    {
        var receiver = Receiver();
        _next.Fail(exception: new OperationCanceledException("The hop's own time limit."));

        var receiving = ReceiveAsync(receiver, Batch(1, "a"));
        await _clock.WaitForTimersAsync();
        _clock.AdvanceToNextTimer();
        await receiving.WithinDeadline();

        Assert.Equal(["a"], _collected.Texts);
    }

    private BatchReceiver Receiver(BatchReceiverOptions? options = null) => new(_next, options, _clock);

    private MessageBatch Batch(long number, params string[] texts) => Some.Batch(_handle, _producer, number, texts);

    private static Task ReceiveAsync(BatchReceiver receiver, params MessageBatch[] batches) =>
        receiver.ReceiveAsync(Some.Frame(batches), CancellationToken.None).AsTask();
}
