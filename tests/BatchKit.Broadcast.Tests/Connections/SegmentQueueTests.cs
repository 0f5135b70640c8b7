using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.WebSockets;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class SegmentQueueTests
{
    private static readonly int CloseFrame = HeldBytes(WebSocketClosings.MaxFrameBytes);
    private static readonly SendQueueLimits Limits = LimitsFor(450);

    private readonly SegmentQueue _segments = new();

    [Fact]
    public void Small_pieces_are_taken_together()
    {
        Add("one");
        Add("two");

        Assert.Equal("onetwo", Take());
        Assert.True(_segments.IsEmpty);
        Assert.Equal((new Amount(2, 6), HeldBytes(6)), (_segments.Waiting, _segments.HeldBytes));
    }

    [Fact]
    public void What_was_taken_is_held_until_released()
    {
        Add("one");
        Take();

        var released = _segments.Release(out _);

        Assert.Equal(new Amount(1, 3), released);
        Assert.Equal((default, 0, false), (_segments.Waiting, _segments.HeldBytes, _segments.IsUnderWay));
    }

    [Fact]
    public void A_large_piece_is_taken_alone_and_uncopied()
    {
        var large = Add(new string('x', SegmentQueue.MaxWriteBytes));
        Add("small");

        Assert.True(_segments.Take(Limits).Equals(large));
        _segments.Release(out _);
        Assert.Equal("small", Take());
    }

    [Fact]
    public void Nothing_is_taken_beyond_where_another_wire_takes_over()
    {
        Add("one");
        Add("two", nextWire: wire => wire);
        Add("three");

        Assert.Equal("onetwo", Take());
        _segments.Release(out var nextWire);
        Assert.NotNull(nextWire);
        Assert.Equal("three", Take());
    }

    [Fact]
    public void The_oldest_makes_room_but_not_what_was_begun_nor_a_protocols_own_bytes()
    {
        Add("begun", isStarted: true);
        Add(new string('a', 40));
        Add("protocol", messages: 0);
        Add(new string('b', 30));
        var tally = default(DeliveryTally);

        var isRoom = _segments.TryAdmit(new OutputRun(new byte[40], messages: 1), LimitsFor(_segments.HeldBytes), ref tally, out var refusal);

        Assert.True(isRoom);
        Assert.Null(refusal);
        Assert.Equal(new Amount(1, 40), tally[DeliveryOutcome.DroppedOldest]);
        Assert.Equal("begunprotocol" + new string('b', 30), Take());
    }

    [Fact]
    public void What_is_under_way_can_not_make_room()
    {
        Add(new string('a', 90));
        Take();
        var tally = default(DeliveryTally);

        var isRoom = _segments.TryAdmit(new OutputRun(new byte[40], messages: 1), Limits, ref tally, out var refusal);

        Assert.False(isRoom);
        Assert.Null(refusal);
        Assert.Equal(new Amount(1, 40), tally[DeliveryOutcome.DroppedNewest]);
    }

    [Fact]
    public void Nothing_is_dropped_for_a_run_that_can_not_fit()
    {
        Add(new string('a', 70));
        Take();
        Add(new string('b', 20));
        var tally = default(DeliveryTally);

        var isRoom = _segments.TryAdmit(new OutputRun(new byte[40], messages: 1), Limits, ref tally, out var refusal);

        Assert.False(isRoom);
        Assert.Null(refusal);
        Assert.Equal((default, new Amount(1, 40)), (tally[DeliveryOutcome.DroppedOldest], tally[DeliveryOutcome.DroppedNewest]));
        Assert.Equal(new Amount(2, 90), _segments.Waiting);
    }

    [Theory]
    [InlineData(SlowConsumerPolicy.DropOldest, "newer")]
    [InlineData(SlowConsumerPolicy.DropNewest, "older")]
    public void A_protocols_own_bytes_are_admitted_for_the_messages_that_the_policy_drops(SlowConsumerPolicy policy, string kept)
    {
        Add("older" + new string('a', 45));
        Add("newer" + new string('b', 45));
        var tally = default(DeliveryTally);

        var isRoom = _segments.TryAdmit(new OutputRun(new byte[2], messages: 0), Limits with { Policy = policy }, ref tally, out var refusal);

        Assert.True(isRoom);
        Assert.Null(refusal);
        var outcome = policy == SlowConsumerPolicy.DropOldest ? DeliveryOutcome.DroppedOldest : DeliveryOutcome.DroppedNewest;
        Assert.Equal(new Amount(1, 50), tally[outcome]);
        Assert.StartsWith(kept, Take(), StringComparison.Ordinal);
    }

    [Fact]
    public void A_client_that_makes_a_protocols_own_bytes_pile_up_is_disconnected()
    {
        Add(new string('a', 300), messages: 0);
        var tally = default(DeliveryTally);

        var isRoom = _segments.TryAdmit(new OutputRun(new byte[2], messages: 0), Limits, ref tally, out var refusal);

        Assert.False(isRoom);
        Assert.Equal(DisconnectReason.SlowConsumer, refusal);
    }

    [Fact]
    public void A_buffer_is_shared_until_the_last_piece_is_released()
    {
        var owner = SharedBuffer.Copy("shared"u8);
        owner.AddReference();
        _segments.Add(new QueuedSegment(owner, owner.Memory[..6], new Amount(1, 6), NextWire: null), isStarted: false);

        _segments.Clear();

        Assert.Equal(6, owner.Memory[..6].Length);
        owner.Release();
        Assert.True(owner.Memory.IsEmpty);
    }

    [Fact]
    public void A_short_run_of_a_long_buffer_keeps_none_of_it()
    {
        var owner = SharedBuffer.Rent(SegmentQueue.MaxWriteBytes);
        var run = new OutputRun(owner.Memory.Span[..12], messages: 1, owner);

        _segments.Add(run.ToSegment(taken: 0, nextWire: null, int.MaxValue), isStarted: false);
        owner.Release();

        Assert.True(owner.Memory.IsEmpty);
        Assert.Equal(HeldBytes(12), _segments.HeldBytes);
    }

    [Fact]
    public void Segments_that_are_taken_together_hold_no_more_than_they_held_apart()
    {
        Add(new string('a', 512));
        Add("b");
        var heldBytes = _segments.HeldBytes;

        _segments.Take(Limits with { MaxBytes = 1 << 20 });

        Assert.InRange(_segments.HeldBytes, 1, heldBytes);
    }

    private static int HeldBytes(int bytes) => QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(bytes));

    private static SendQueueLimits LimitsFor(int capacityBytes) => new(capacityBytes + CloseFrame, MaxMessages: 10, SlowConsumerPolicy.DropOldest);

    private ReadOnlyMemory<byte> Add(string text, int messages = 1, bool isStarted = false, Func<IWire, IWire>? nextWire = null)
    {
        var owner = SharedBuffer.Copy(Encoding.UTF8.GetBytes(text));
        var bytes = owner.Memory[..text.Length];
        _segments.Add(new QueuedSegment(owner, bytes, messages == 0 ? default : new Amount(messages, text.Length), nextWire), isStarted);
        return bytes;
    }

    private string Take() => Encoding.UTF8.GetString(_segments.Take(Limits).Span);
}
