using System.Buffers;
using BatchKit.MQTTnet.Tests.Support;
using BatchKit.Testing;
using MQTTnet.Exceptions;

namespace BatchKit.MQTTnet.Tests;

public sealed class BatchedWriteChannelTests : IDisposable
{
    private const int MaxPendingBytes = 1000;

    private readonly RecordingChannel _inner = new();
    private readonly ManualTimeProvider _time = new();
    private readonly BatchedWriteChannel _channel;

    public BatchedWriteChannelTests() => _channel = new BatchedWriteChannel(_inner, MaxPendingBytes, _time);

    public void Dispose()
    {
        _channel.Dispose();
        _inner.Dispose();
    }

    [Fact]
    public void What_is_written_in_a_hold_leaves_in_one_write_at_its_end()
    {
        using (WriteHold.Begin())
        {
            using (WriteHold.Begin())
                Put([1, 2], isEndOfPacket: false);
            Put([3], isEndOfPacket: true);
            Put([4, 5, 6], isEndOfPacket: true);
            Assert.Empty(_inner.Writes);
        }

        Assert.Equal([1, 2, 3, 4, 5, 6], Assert.Single(_inner.Writes));
    }

    [Fact]
    public void A_hold_on_one_channel_keeps_no_other_back_for_ever()
    {
        using var otherInner = new RecordingChannel();
        using var other = new BatchedWriteChannel(otherInner, MaxPendingBytes, _time);

        using (WriteHold.Begin())
        {
            Put([1], isEndOfPacket: true);
            Put([2], isEndOfPacket: true, channel: other);
            SpinWait.SpinUntil(() => otherInner.Writes.Count > 0, Deadline.Time);
            Assert.Empty(_inner.Writes);
        }

        Assert.Equal([1], _inner.Bytes);
        Assert.Equal([2], otherInner.Bytes);
    }

    [Fact]
    public async Task Without_a_hold_what_comes_during_a_write_leaves_in_the_next()
    {
        var gate = _inner.Gate = new TaskCompletionSource();
        Put([1], isEndOfPacket: true);
        await WaitForWritesAsync(1);

        for (byte value = 2; value <= 50; value++)
            Put([value], isEndOfPacket: true);
        (_inner.Gate, _) = (null, gate.TrySetResult());
        await WaitForWritesAsync(2);

        Assert.Equal(2, _inner.Writes.Count);
        Assert.Equal([.. Enumerable.Range(1, 50).Select(value => (byte)value)], _inner.Bytes);
    }

    [Fact]
    public async Task A_packets_head_waits_for_its_payload()
    {
        Put([1], isEndOfPacket: false);
        Put([2], isEndOfPacket: true);
        await WaitForWritesAsync(1);

        Assert.Equal([1, 2], Assert.Single(_inner.Writes));
    }

    [Fact]
    public async Task A_write_waits_when_too_much_is_pending_and_goes_on_when_it_was_taken()
    {
        var gate = _inner.Gate = new TaskCompletionSource();
        Put([1], isEndOfPacket: true);
        await WaitForWritesAsync(1);

        var small = Write([2], isEndOfPacket: true);
        var large = Write(new byte[MaxPendingBytes], isEndOfPacket: true);
        Assert.Equal((true, false), (small.IsCompleted, large.IsCompleted));
        gate.SetResult();
        await large.WithinDeadline();

        Assert.Equal(MaxPendingBytes + 2, _inner.Bytes.Length);
    }

    [Fact]
    public async Task A_hold_does_not_keep_back_more_than_may_be_pending()
    {
        Task large;
        using (WriteHold.Begin())
        {
            large = Write(new byte[MaxPendingBytes], isEndOfPacket: true);
            SpinWait.SpinUntil(() => large.IsCompleted, Deadline.Time);
        }

        await large.WithinDeadline();
    }

    [Fact]
    public async Task A_failed_write_closes_the_channel_and_later_writes_say_why()
    {
        _inner.Failure = new IOException("cut");
        Put([1], isEndOfPacket: true);
        SpinWait.SpinUntil(() => _inner.IsDisposed, Deadline.Time);

        var exception = Assert.Throws<MqttCommunicationException>(() => Put([2], isEndOfPacket: true));

        Assert.Equal("cut", exception.InnerException?.Message);
        await _channel.DisconnectAsync(CancellationToken.None).WithinDeadline();
    }

    [Fact]
    public async Task A_write_that_waits_ends_when_the_channel_is_disposed()
    {
        _inner.Gate = new TaskCompletionSource();
        Put([1], isEndOfPacket: true);
        await WaitForWritesAsync(1);
        var waiting = Write(new byte[MaxPendingBytes], isEndOfPacket: true);

        _channel.Dispose();

        await Assert.ThrowsAsync<MqttCommunicationException>(() => waiting.WithinDeadline());
    }

    [Fact]
    public void Disconnecting_writes_what_is_pending_first()
    {
        using (WriteHold.Begin())
        {
            Put([1], isEndOfPacket: true);
            var disconnecting = _channel.DisconnectAsync(CancellationToken.None);
            Assert.True(disconnecting.IsCompletedSuccessfully);
        }

        Assert.Equal([1], _inner.Bytes);
        Assert.True(_inner.IsDisconnected);
    }

    [Fact]
    public async Task Disconnecting_from_a_peer_that_does_not_read_waits_for_a_second_only()
    {
        _inner.Gate = new TaskCompletionSource();
        Put([1], isEndOfPacket: true);
        await WaitForWritesAsync(1);

        var disconnecting = _channel.DisconnectAsync(CancellationToken.None);
        await _time.WaitForTimersAsync();
        var early = _inner.IsDisconnected;
        _time.Advance(TimeSpan.FromSeconds(1));
        await disconnecting.WithinDeadline();

        Assert.Equal((false, true), (early, _inner.IsDisconnected));
    }

    [Fact]
    public async Task Disconnecting_with_a_cancelled_token_closes_the_connection()
    {
        _inner.Gate = new TaskCompletionSource();
        Put([1], isEndOfPacket: true);
        await WaitForWritesAsync(1);

        await _channel.DisconnectAsync(new CancellationToken(canceled: true)).WithinDeadline();

        Assert.True(_inner.IsDisposed);
    }

    private Task Write(byte[] bytes, bool isEndOfPacket) => _channel.WriteAsync(new ReadOnlySequence<byte>(bytes), isEndOfPacket, CancellationToken.None);

    private void Put(byte[] bytes, bool isEndOfPacket, BatchedWriteChannel? channel = null) =>
        Assert.True((channel ?? _channel).WriteAsync(new ReadOnlySequence<byte>(bytes), isEndOfPacket, CancellationToken.None).IsCompletedSuccessfully);

    private Task WaitForWritesAsync(int count) => Until.TrueAsync(() => _inner.Writes.Count >= count);
}
