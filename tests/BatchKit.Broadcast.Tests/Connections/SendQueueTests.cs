using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Tests.Connections.Queueing;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class SendQueueTests
{
    private readonly FakeWire _wire = new();
    private readonly DeliveryCounters _counters = new();

    [Fact]
    public void While_the_client_reads_output_is_written_on_the_senders_thread()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);

        Send(queue, "one");
        Send(queue, "two");

        Assert.Equal(("onetwo", 0, 2), (Written, queue.HeldBytes, _wire.Writes));
        Assert.Equal(new Amount(2, 6), _counters[DeliveryOutcome.Sent]);
    }

    [Fact]
    public async Task What_waits_leaves_in_one_write_when_the_client_reads_again()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);
        _wire.Limit(0);
        Send(queue, "one ");
        foreach (var text in Some.Lines(20))
            Send(queue, text);

        _wire.Open();
        await Until.TrueAsync(() => queue.HeldBytes == 0);

        Assert.Equal("one " + string.Concat(Some.Lines(20)), Written);
        Assert.Equal(2, _wire.Writes);
    }

    [Theory]
    [InlineData(SlowConsumerPolicy.DropOldest)]
    [InlineData(SlowConsumerPolicy.DropNewest)]
    public async Task A_message_that_was_begun_is_finished_whatever_is_dropped(SlowConsumerPolicy policy)
    {
        var queue = Queue(policy, maxBytes: 3200);
        _wire.Limit(1);
        for (var message = 0; message < 100; message++)
            Send(queue, $"<{message:D2}>");

        _wire.Open();
        await Until.TrueAsync(() => queue.HeldBytes == 0);

        var kept = Written.Split('<', StringSplitOptions.RemoveEmptyEntries);
        Assert.Equal("00>", kept[0]);
        Assert.All(kept, text => Assert.Equal((3, '>'), (text.Length, text[^1])));
        Assert.Equal(policy == SlowConsumerPolicy.DropOldest ? "99>" : $"{kept.Length - 1:D2}>", kept[^1]);
        Assert.Equal(100 - kept.Length, (int)(_counters[DeliveryOutcome.DroppedOldest].Messages + _counters[DeliveryOutcome.DroppedNewest].Messages));
    }

    [Fact]
    public async Task The_newest_has_room_beside_what_is_under_way_when_the_oldest_may_go()
    {
        var wire = new SteppedWire();
        var queue = new SendQueue(wire, new SendQueueLimits(1000, 100, SlowConsumerPolicy.DropOldest), _counters, new ManualTimeProvider());
        for (var message = 0; message < 300; message++)
            Send(queue, $"<{message:D3}>");

        // The first is written; as much of what waits as may be is under way behind it, and stays there.
        await Task.Run(() => wire.Grant(5));
        for (var message = 300; message < 1000; message++)
            Send(queue, $"<{message:D3}>");
        await Task.Run(() => wire.Grant(int.MaxValue));

        var written = Encoding.UTF8.GetString([.. wire.Written]);
        Assert.EndsWith("<998><999>", written, StringComparison.Ordinal);
        Assert.Equal(default, _counters[DeliveryOutcome.DroppedNewest]);
        Assert.Equal(1000 - (written.Length / 5), _counters[DeliveryOutcome.DroppedOldest].Messages);
    }

    [Fact]
    public async Task The_last_bytes_come_behind_what_waits_and_then_the_sending_side_ends()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);
        _wire.Limit(2);
        Send(queue, "waits ");

        queue.Complete("bye"u8);
        Send(queue, "too late");
        var endedEarly = queue.Ended.IsCompleted;
        _wire.Open();
        await queue.Ended.WithinDeadline();

        Assert.False(endedEarly);
        Assert.Equal(("waits bye", true), (Written, _wire.IsFinished));
        Assert.Equal(new Amount(1, 8), _counters[DeliveryOutcome.DroppedClosed]);
    }

    [Fact]
    public async Task Abort_ends_a_write_that_waits_and_counts_all_of_it()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);
        _wire.Limit(2);
        Send(queue, "one");
        Send(queue, "two");

        queue.Abort(DeliveryOutcome.DroppedSlowConsumer);
        await queue.Ended.WithinDeadline();
        Send(queue, "three");

        Assert.Equal(new Amount(3, 11), _counters[DeliveryOutcome.DroppedSlowConsumer]);
        Assert.Equal((0, default), (queue.HeldBytes, queue.Waiting));
    }

    [Fact]
    public async Task Who_takes_a_large_message_slowly_is_not_stalled_and_who_takes_none_of_it_is()
    {
        var (clock, wire, limit) = (new ManualTimeProvider(), new SteppedWire(), TimeSpan.FromSeconds(30));
        var queue = new SendQueue(wire, new SendQueueLimits(1024 * 1024, 10, SlowConsumerPolicy.Disconnect), _counters, clock);
        Send(queue, new string('x', 300_000));

        var stalled = new List<bool>();
        foreach (var bytes in new[] { 70_000, 70_000, 70_000, 0, 0 })
        {
            clock.Advance(TimeSpan.FromSeconds(20));
            await Task.Run(() => wire.Grant(bytes));
            stalled.Add(queue.StalledFor >= limit);
        }

        Assert.Equal([false, false, false, false, true], stalled);
        Assert.Equal(QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(300_000)), queue.HeldBytes);
        await Task.Run(() => wire.Grant(100_000));
        Assert.Equal((300_000, 0), (wire.Written.Count, queue.HeldBytes));
    }

    [Fact]
    public async Task Of_the_pongs_that_wait_only_the_last_is_sent()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);
        _wire.Limit(0);
        queue.SendPong("<first>"u8);
        Send(queue, "message ");
        queue.SendPong("<second>"u8);
        var heldBytes = queue.HeldBytes;

        for (var pong = 0; pong < 100_000; pong++)
            queue.SendPong("<others>"u8);
        queue.SendPong("<last>"u8);

        Assert.Equal(heldBytes, queue.HeldBytes);
        _wire.Open();
        await Until.TrueAsync(() => queue.HeldBytes == 0);
        Assert.Equal("<first>message <last>", Written);
    }

    [Fact]
    public void Whatever_a_wire_throws_is_its_own_clients_failure()
    {
        var queue = new SendQueue(new ThrowingWire(), new SendQueueLimits(1024, 10, SlowConsumerPolicy.Disconnect), _counters, TimeProvider.System);
        var tally = default(DeliveryTally);

        var reason = queue.Send(new OutputRun("hello"u8, messages: 1), ref tally);

        Assert.Equal(DisconnectReason.ConnectionLost, reason);
        Assert.Equal(new Amount(1, 5), tally[DeliveryOutcome.Failed]);
    }

    [Fact]
    public async Task A_wire_that_cannot_be_aborted_ends_its_queue_all_the_same()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);
        _wire.AbortFailure = new InvalidOperationException("Not what a wire should throw.");
        _wire.Limit(2);
        Send(queue, "waits");

        queue.Abort(DeliveryOutcome.DroppedSlowConsumer);
        await queue.Ended.WithinDeadline();

        Assert.Equal(new Amount(1, 5), _counters[DeliveryOutcome.DroppedSlowConsumer]);
    }

    [Fact]
    public void A_next_wire_that_cannot_be_made_is_its_own_clients_failure()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);

        var reason = queue.SendControl("start"u8, _ => throw new InvalidOperationException("Not what a wire should throw."));

        Assert.Equal(DisconnectReason.ConnectionLost, reason);
    }

    [Fact]
    public async Task A_next_wire_that_cannot_be_made_later_ends_its_queue_and_all_is_counted()
    {
        var queue = Queue(SlowConsumerPolicy.Disconnect);
        _wire.Limit(0);
        Send(queue, "one");
        Send(queue, "two");
        queue.SendControl("start"u8, _ => throw new InvalidOperationException("Not what a wire should throw."));
        Send(queue, "three");

        _wire.Open();
        await queue.Ended.WithinDeadline();

        Assert.Equal("onetwostart", Written);
        Assert.Equal((new Amount(2, 6), new Amount(1, 5)), (_counters[DeliveryOutcome.Sent], _counters[DeliveryOutcome.Failed]));
    }

    [Fact]
    public async Task Of_two_values_of_a_key_in_one_run_the_newer_one_does_not_overtake_the_longer_one()
    {
        var queue = Queue(SlowConsumerPolicy.DropOldest, maxBytes: 4096);
        _wire.Limit(0);
        foreach (var plain in new[] { 5, 1000 })
            Send(queue, new string('.', plain));
        SendLatest(queue, "<1>");
        foreach (var plain in new[] { 1000, 500 })
            Send(queue, new string('.', plain));

        SendLatest(queue, $"<2{new string('-', 300)}>", "<3>");

        _wire.Open();
        await Until.TrueAsync(() => queue.HeldBytes == 0);
        Assert.Equal("<3>", Written[Written.LastIndexOf('<')..]);
        Assert.Contains("<2-", Written, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Writers_side_by_side_keep_their_order_and_lose_nothing_uncounted()
    {
        const int senders = 4;
        const int messages = 5000;
        var queue = Queue(SlowConsumerPolicy.DropNewest, maxBytes: 4096);

        var sending = Enumerable.Range(0, senders).Select(sender => Task.Run(() =>
        {
            for (var message = 0; message < messages; message++)
                Send(queue, $"{sender} {message}\n");
        })).ToArray();
        var blocking = Task.Run(() => BlockNowAndThen(Task.WhenAll(sending)));
        await Task.WhenAll([.. sending, blocking]).WithinDeadline();
        await Until.TrueAsync(() => queue.HeldBytes == 0);

        var lines = Written.Split('\n')[..^1].Select(line => Array.ConvertAll(line.Split(' '), int.Parse)).ToArray();
        for (var sender = 0; sender < senders; sender++)
        {
            var numbers = lines.Where(line => line[0] == sender).Select(line => line[1]).ToArray();
            Assert.Equal(numbers.Order().Distinct(), numbers);
        }

        await Until.TrueAsync(() => _counters[DeliveryOutcome.Sent].Messages == lines.Length);
        Assert.Equal(senders * messages, lines.Length + _counters[DeliveryOutcome.DroppedNewest].Messages);
        Assert.Equal(_counters.Attempted, _counters[DeliveryOutcome.Sent] + _counters[DeliveryOutcome.DroppedNewest]);
    }

    private string Written => Encoding.UTF8.GetString(_wire.Written);

    private void BlockNowAndThen(Task sending)
    {
        while (!sending.IsCompleted)
        {
            _wire.Limit(50);
            Thread.Yield();
            _wire.Open();
        }
    }

    private SendQueue Queue(SlowConsumerPolicy policy, int maxBytes = 1024 * 1024) =>
        new(_wire, new SendQueueLimits(maxBytes, 100_000, policy), _counters, new ManualTimeProvider());

    private void Send(SendQueue queue, string text)
    {
        var tally = default(DeliveryTally);
        queue.Send(new OutputRun(Encoding.UTF8.GetBytes(text), messages: 1), ref tally);
        _counters.Add(tally);
    }

    private static void SendLatest(SendQueue queue, params string[] values)
    {
        var (marks, start) = (new List<LatestMark>(), 0);
        foreach (var value in values)
        {
            marks.Add(new LatestMark(new LatestKey(OutputHandle.Named("hall"), 1), start, value.Length, marks.Count));
            start += value.Length;
        }

        var tally = default(DeliveryTally);
        queue.Send(new OutputRun(Encoding.UTF8.GetBytes(string.Concat(values)), values.Length) { Latest = marks.ToArray() }, ref tally);
    }

    private sealed class ThrowingWire : IWire
    {
        public int TryWrite(ReadOnlySpan<byte> bytes) => throw new InvalidOperationException("Not what a wire should throw.");

        public ValueTask WriteAsync(ReadOnlyMemory<byte> bytes) => default;

        public ValueTask FinishAsync() => default;

        public void Abort()
        {
        }
    }
}
