using BatchKit.Postgres.Frames;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Postgres.Tests.Frames;

public sealed class FrameHandlerTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ScriptedTransport _nextHop;
    private readonly FrameHandler _handler;
    private readonly OutputHandle _handle = Some.Connection();
    private readonly ProducerId _producer = Some.Producer();
    private long _lastId;

    public FrameHandlerTests()
    {
        _nextHop = new ScriptedTransport(_arrived);
        _handler = new FrameHandler(new BatchReceiver(_nextHop, new BatchReceiverOptions { RetryDelay = TimeSpan.FromMilliseconds(1), MaxRetryDelay = TimeSpan.FromMilliseconds(2) }));
    }

    [Fact]
    public async Task Frames_reach_the_next_hop_in_order_and_are_done()
    {
        var batch = Batch(Frame(1, "one"), Frame(2, "two"), Frame(3, "three"));

        await _handler.HandleAsync(batch, CancellationToken.None);

        Assert.Equal(["one", "two", "three"], _arrived.Texts);
        Assert.All(batch, message => Assert.Equal(MessageOutcome.Done, message.Outcome));
    }

    [Fact]
    public async Task A_frame_that_comes_twice_is_done_and_handed_on_once()
    {
        await _handler.HandleAsync(Batch(Frame(1, "one"), Frame(2, "two")), CancellationToken.None);
        var again = Batch(Frame(2, "two"), Frame(3, "three"));

        await _handler.HandleAsync(again, CancellationToken.None);

        Assert.Equal(["one", "two", "three"], _arrived.Texts);
        Assert.All(again, message => Assert.Equal(MessageOutcome.Done, message.Outcome));
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_forged_frame_is_done_without_being_handed_on_and_drops_nothing_genuine(bool isSigned)
    {
        var signer = isSigned ? new FrameSigner(Some.RandomBytes(FrameSigner.MinKeyBytes)) : null;
        var receiver = new BatchReceiver(_nextHop, new BatchReceiverOptions { Signer = signer });
        var batch = Batch(Genuine(1), Frame(isSigned ? 2 : long.MaxValue, "forged"), Genuine(2), Genuine(3));

        await new FrameHandler(receiver).HandleAsync(batch, CancellationToken.None);

        Assert.Equal(["1", "2", "3"], _arrived.Texts);
        Assert.Equal(1, receiver.GetStatistics().RejectedFrames);
        Assert.All(batch, message => Assert.Equal(MessageOutcome.Done, message.Outcome));

        byte[] Genuine(long number)
        {
            using var frame = PooledFrame.Encode([Some.Batch(_handle, _producer, number, $"{number}")], signer);
            return frame.Bytes.ToArray();
        }
    }

    [Fact]
    public async Task A_failing_next_hop_is_tried_again_in_place()
    {
        _nextHop.Fail(sends: 2);
        var batch = Batch(Frame(1, "one"), Frame(2, "two"));

        await _handler.HandleAsync(batch, CancellationToken.None).WithinDeadline();

        Assert.Equal(["one", "two"], _arrived.Texts);
        Assert.All(batch, message => Assert.Equal(MessageOutcome.Done, message.Outcome));
    }

    [Fact]
    public async Task What_is_no_frame_is_buried_with_its_reason_and_its_neighbours_are_done()
    {
        var batch = Batch(Frame(1, "one"), Some.Bytes("no frame"), Frame(2, "two"));

        await _handler.HandleAsync(batch, CancellationToken.None);

        Assert.Equal(["one", "two"], _arrived.Texts);
        Assert.Equal([MessageOutcome.Done, MessageOutcome.Dead, MessageOutcome.Done], batch.Select(message => message.Outcome!.Value));
        Assert.NotEmpty(batch[1].Reason!);
    }

    [Fact]
    public async Task When_cancelled_what_the_next_hop_has_is_done_and_the_rest_is_left_to_its_receiver()
    {
        using var cancellation = new CancellationTokenSource();
        _nextHop.Pass();
        var stalled = _nextHop.Stall();
        var batch = Batch(Frame(1, "one"), Frame(2, "two"), Frame(3, "three"));

        var handling = _handler.HandleAsync(batch, cancellation.Token);
        await stalled.EnteredAsync();
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => handling.WithinDeadline());

        Assert.Equal(["one"], _arrived.Texts);
        Assert.Equal([MessageOutcome.Done, null, null], batch.Select(static message => message.Outcome));
    }

    [Fact]
    public async Task A_batch_waits_for_the_one_before_it_even_if_one_between_them_gave_up()
    {
        using var cancellation = new CancellationTokenSource();
        var stalled = _nextHop.Stall(ignoresCancellation: true);
        var first = _handler.HandleAsync(Batch(Frame(1, "one")), CancellationToken.None);
        await stalled.EnteredAsync();
        var second = _handler.HandleAsync(Batch(Frame(2, "two")), cancellation.Token);
        await cancellation.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => second.WithinDeadline());

        var third = _handler.HandleAsync(Batch(Frame(2, "two"), Frame(3, "three")), CancellationToken.None);
        var beganEarly = _nextHop.Sends > 1;
        stalled.Release();
        await first.WithinDeadline();
        await third.WithinDeadline();

        Assert.False(beganEarly);
        Assert.Equal(["one", "two", "three"], _arrived.Texts);
    }

    private byte[] Frame(long number, string text) => Some.Frame(Some.Batch(_handle, _producer, number, text));

    private QueueMessage[] Batch(params byte[][] frames) =>
        [.. frames.Select(frame => new QueueMessage(OutputHandle.Named("frames"), ++_lastId, attempt: 1, priority: 0, DateTimeOffset.UnixEpoch, key: null, header: null, frame))];
}
