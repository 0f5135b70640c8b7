using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Publishing;

namespace BatchKit.Mqtt.Tests.Publishing;

/// <summary>What is unacknowledged, its packet ids, and what a new connection sends again.</summary>
public sealed class PublishWindowTests
{
    private readonly PublishWindow _window = new();

    [Fact]
    public void It_has_room_up_to_its_quota()
    {
        _window.Restart(quota: 3);

        var ids = Add(new TestGroup(10), 0, 3);

        Assert.False(_window.HasCapacity);
        Assert.Equal([1, 2, 3], ids);
        Assert.True(_window.TryRemove(2, out _, out var index));
        Assert.Equal(1, index);
        Assert.True(_window.HasCapacity);
    }

    [Fact]
    public void A_packet_id_that_nothing_waits_for_is_ignored()
    {
        _window.Restart(quota: 10);
        Add(new TestGroup(10), 0, 2);

        Assert.True(_window.TryRemove(1, out _, out _));
        Assert.False(_window.TryRemove(1, out _, out _));
        Assert.False(_window.TryRemove(0, out _, out _));
        Assert.False(_window.TryRemove(3, out _, out _));
        Assert.False(_window.TryRemove(65_535, out _, out _));
        Assert.Equal(1, _window.Unacknowledged);
    }

    [Fact]
    public void Packet_ids_wrap_and_are_never_zero_nor_in_use()
    {
        var group = new TestGroup(300_000);
        var order = new Queue<int>();
        var inUse = new HashSet<int>();
        _window.Restart(quota: 1000);

        for (var index = 0; index < 300_000; index++)
        {
            // One in a thousand waits for twice as long as the others, as with a broker that acknowledges out of order.
            if (!_window.HasCapacity)
            {
                if (index % 1000 == 0)
                    order.Enqueue(order.Dequeue());
                var packetId = order.Dequeue();
                Assert.True(_window.TryRemove((ushort)packetId, out _, out _));
                inUse.Remove(packetId);
            }

            Assert.True(_window.HasCapacity);
            var added = Assert.Single(Add(group, index, 1));
            Assert.InRange(added, 1, 65_535);
            Assert.True(inUse.Add(added), $"Packet id {added} is in use.");
            order.Enqueue(added);
        }
    }

    [Fact]
    public void One_that_is_never_acknowledged_stops_it_before_its_packet_id_comes_again()
    {
        _window.Restart(quota: 65_534);
        var group = new TestGroup(200_000);
        var sent = 0;

        while (_window.HasCapacity)
        {
            var packetId = Assert.Single(Add(group, sent++, 1));
            if (sent > 1)
                Assert.True(_window.TryRemove((ushort)packetId, out _, out _));
        }

        Assert.Equal(65_534, sent);
        Assert.True(_window.TryRemove(1, out _, out var first));
        Assert.Equal(0, first);
        Assert.True(_window.HasCapacity);
    }

    [Fact]
    public void A_new_connection_sends_again_in_order_with_the_same_packet_ids()
    {
        _window.Restart(quota: 10);
        Add(new TestGroup(10), 0, 5);
        Assert.True(_window.TryRemove(2, out _, out _));

        _window.Restart(quota: 10);

        Assert.Equal([(0, 1), (2, 3), (3, 4), (4, 5)], Resend());
        Assert.Equal(4, _window.Unacknowledged);
        Assert.Equal(6, Assert.Single(Add(new TestGroup(10), 0, 1)));
    }

    [Fact]
    public void A_smaller_quota_holds_for_what_is_sent_again_too()
    {
        _window.Restart(quota: 10);
        Add(new TestGroup(10), 0, 5);

        _window.Restart(quota: 2);
        _window.AdvanceResend();
        _window.AdvanceResend();

        Assert.False(_window.HasQuota);
        Assert.True(_window.HasResends);
        Assert.True(_window.TryRemove(1, out _, out _));
        Assert.True(_window.HasQuota);
        Assert.Equal(2, _window.NextResend.Index);
    }

    [Fact]
    public void What_is_acknowledged_late_is_not_sent_again()
    {
        _window.Restart(quota: 10);
        Add(new TestGroup(10), 0, 3);
        _window.Restart(quota: 10);
        _window.AdvanceResend();

        Assert.True(_window.TryRemove(2, out _, out _));

        Assert.Equal([(2, 3)], Resend());
        Assert.Equal(2, _window.Unacknowledged);
    }

    [Fact]
    public void What_has_no_owner_goes_back_to_its_group()
    {
        var (parked, owned) = (new TestGroup(3), new TestGroup(3));
        _window.Restart(quota: 10);
        Add(parked, 0, 3);
        parked.Advance();
        parked.Advance();
        parked.Advance();
        Add(owned, 0, 1);
        Assert.True(_window.TryRemove(2, out _, out _));
        parked.Detach();

        _window.Restart(quota: 10);

        Assert.Equal([(0, 4)], Resend());
        Assert.True(parked.HasUnsent);
        Assert.Equal(0, parked.NextIndex);
        parked.Advance();
        Assert.Equal(2, parked.NextIndex);
        parked.Advance();
        Assert.False(parked.HasUnsent);
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    [InlineData(4)]
    public void Any_run_of_sends_acknowledgements_and_lost_connections_keeps_order_and_counts(int seed)
    {
        var random = new Random(seed);
        var group = new TestGroup(int.MaxValue);
        var expected = new List<(int Index, int PacketId)>();
        var underWay = new HashSet<int>();
        var next = 0;
        _window.Restart(quota: 50);
        for (var step = 0; step < 20_000; step++)
        {
            var choice = random.Next(100);
            if (choice < 55 && !_window.HasResends && _window.HasCapacity)
            {
                var packetId = Add(group, next, 1)[0];
                expected.Add((next++, packetId));
                underWay.Add(packetId);
            }
            else if (choice < 70 && _window.HasResends && _window.HasQuota)
            {
                var first = expected.First(entry => !underWay.Contains(entry.PacketId));
                Assert.Equal(first, (_window.NextResend.Index, (int)_window.NextResend.PacketId));
                underWay.Add(first.PacketId);
                _window.AdvanceResend();
            }
            else if (choice < 98 && underWay.Count > 0)
            {
                var entry = expected.Where(entry => underWay.Contains(entry.PacketId)).ElementAt(random.Next(Math.Min(3, underWay.Count)));
                Assert.True(_window.TryRemove((ushort)entry.PacketId, out _, out var index));
                Assert.Equal(entry.Index, index);
                expected.Remove(entry);
                underWay.Remove(entry.PacketId);
            }
            else if (choice >= 98)
            {
                _window.Restart(quota: random.Next(1, 80));
                underWay.Clear();
            }

            Assert.Equal(underWay.Count, _window.Unacknowledged);
        }
    }

    private List<int> Add(PublishGroup group, int from, int count)
    {
        var ids = new List<int>();
        for (var index = from; index < from + count; index++)
        {
            ids.Add(_window.NextPacketId);
            _window.Add(group, index);
        }

        return ids;
    }

    private List<(int Index, int PacketId)> Resend()
    {
        var sent = new List<(int, int)>();
        while (_window.HasResends)
        {
            sent.Add((_window.NextResend.Index, _window.NextResend.PacketId));
            _window.AdvanceResend();
        }

        return sent;
    }
}

/// <summary>A group whose messages are their own numbers.</summary>
internal sealed class TestGroup : PublishGroup
{
    public TestGroup(int count) => Begin(new TestSend(), count);

    public override MqttPublishResult Read(int index, ref PublishFields fields) => default;

    protected override void Record(int index, MqttPublishResult result)
    {
    }
}

/// <summary>A send that owns groups and does nothing else.</summary>
internal sealed class TestSend : PublishSend
{
    public override PublishGroup? NextGroup => null;

    protected override Exception? Finish(Exception? cause) => cause;
}
