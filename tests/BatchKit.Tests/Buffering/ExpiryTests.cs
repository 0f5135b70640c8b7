using System.Collections.Concurrent;
using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

/// <summary>Messages with a time to live: one that is too old when it would be sent for the first time is dropped, counted and told.</summary>
public sealed class ExpiryTests
{
    private static readonly MessageHeader Second = new() { TimeToLive = TimeSpan.FromSeconds(1) };

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task What_a_scope_held_for_too_long_is_dropped_unsent_counted_and_told()
    {
        var dropped = new ConcurrentQueue<DroppedMessages>();
        await using var buffer = Buffer(options: new OutputBufferOptions { MessagesDropped = dropped.Enqueue });
        var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "plain");
        buffer.Write(_handle, "old", Second);
        buffer.Write(_handle, "prompt", MessageHeader.Prompt);
        buffer.Write(_handle, "as old", Second);
        _clock.Advance(TimeSpan.FromMilliseconds(600));
        buffer.Write(_handle, "young", Second);
        _clock.Advance(TimeSpan.FromMilliseconds(400));

        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(2, failure.LostMessages);
        Assert.Equal([("plain", null), ("prompt", MessageHeader.Prompt), ("young", Second)], _arrived.Messages.Select(static message => (message.Text, message.Header)));
        var counted = buffer.GetStatistics();
        Assert.Equal((5, 3, 2, 2, 0, 0), (counted.AcceptedMessages, counted.AcknowledgedMessages, counted.ExpiredMessages, counted.DroppedMessages, counted.PendingMessages, counted.BufferedBytes));
        await buffer.DisposeAsync();
        Assert.Equal([new DroppedMessages(_handle, DropReason.Expired, 2)], dropped);
    }

    [Fact]
    public async Task Batches_of_which_all_has_expired_are_not_sent_and_those_beside_them_are()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = Buffer(transport);
        var (first, last) = (Some.Connection(), Some.Connection());
        buffer.Write(first, "under way");
        await stalled.EnteredAsync();
        buffer.Write(first, "kept");
        buffer.Write(_handle, "old", Second);
        buffer.Write(last, "kept too");
        _clock.Advance(TimeSpan.FromSeconds(1));

        stalled.Release();
        await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(_handle).WithinDeadline());
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(["under way", "kept", "kept too"], _arrived.Texts);
        Assert.Equal([1L, 2L, 3L], _arrived.Batches.Select(static batch => batch.Number));
        Assert.Equal((2L, 1L), (buffer.GetStatistics().Sends, buffer.GetStatistics().ExpiredMessages));
    }

    [Fact]
    public async Task A_send_that_would_have_nothing_is_none()
    {
        await using var buffer = Buffer();
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.Write(_handle, "old", Second);
            _clock.Advance(TimeSpan.FromSeconds(2));
        }

        buffer.Write(_handle, "next");

        Assert.Equal(["next"], _arrived.Texts);
        Assert.Equal((2L, 1L, 1L, 0L), (buffer.GetStatistics().AcceptedMessages, buffer.GetStatistics().Sends, buffer.GetStatistics().ExpiredMessages, buffer.GetStatistics().PendingMessages));
    }

    [Fact]
    public async Task What_was_sent_once_is_sent_again_however_old_it_is()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(1) });
        buffer.Write(_handle, "sent", new MessageHeader { TimeToLive = TimeSpan.FromDays(1) });
        await stalled.EnteredAsync();
        buffer.Write(_handle, "never", new MessageHeader { TimeToLive = TimeSpan.FromTicks(1) });

        stalled.Fail();
        var failure = await Assert.ThrowsAsync<OutputDeliveryException>(() => buffer.FlushAsync(_handle).WithinDeadline());

        Assert.Equal(1, failure.LostMessages);
        Assert.Equal(["sent"], _arrived.Texts);
    }

    [Fact]
    public async Task A_failed_send_that_has_grown_old_meanwhile_arrives()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = Buffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromSeconds(3) });
        buffer.Write(_handle, "sent", Second);
        await stalled.EnteredAsync();

        stalled.Fail();
        var flushed = buffer.FlushAsync(_handle).WithinDeadline();
        await Until.TrueAsync(() =>
        {
            _clock.Advance(TimeSpan.FromSeconds(11));
            return flushed.IsCompleted;
        });

        await flushed;
        Assert.Equal(["sent"], _arrived.Texts);
        Assert.Equal(0, buffer.GetStatistics().ExpiredMessages);
    }

    [Fact]
    public async Task A_newer_latest_value_lives_for_its_own_time()
    {
        await using var buffer = Buffer();
        var scope = buffer.BeginBufferingScope(_handle);
        for (var key = 1; key <= 3; key++)
            buffer.WriteLatest(_handle, key, "old", Second);
        buffer.Write(_handle, "plain");
        _clock.Advance(TimeSpan.FromMilliseconds(600));
        buffer.WriteLatest(_handle, 1, "younger and longer", Second);
        buffer.WriteLatest(_handle, 3, "for ever");
        _clock.Advance(TimeSpan.FromMilliseconds(600));

        await Assert.ThrowsAsync<OutputDeliveryException>(() => scope.DisposeAsync().WithinDeadline());

        Assert.Equal(["younger and longer", "for ever", "plain"], _arrived.Texts);
        Assert.Equal((2L, 1L), (buffer.GetStatistics().SupersededMessages, buffer.GetStatistics().ExpiredMessages));
    }

    [Fact]
    public async Task Latest_values_behind_expired_ones_keep_their_keys()
    {
        var batches = new List<(int Index, long Key)[]>();
        await using var buffer = Buffer(new LatestTransport(batches));
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.WriteLatest(_handle, 1, "old", Second);
            buffer.WriteLatest(_handle, 2, "kept");
            buffer.Write(_handle, "old", Second);
            buffer.WriteLatest(_handle, 3, "kept");
            _clock.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal([(0, 2L), (1, 3L)], Assert.Single(batches));
    }

    [Fact]
    public async Task Messages_of_a_writer_expire_as_others_do()
    {
        await using var buffer = Buffer();
        using (buffer.BeginBufferingScope(_handle))
        {
            using (var lines = buffer.BeginWriting(_handle))
            {
                for (var line = 0; line < 100; line++)
                    lines.Write($"{line}", line % 2 == 0 ? Second : null);
            }

            _clock.Advance(TimeSpan.FromSeconds(1));
        }

        Assert.Equal(Enumerable.Range(0, 50).Select(static line => $"{(2 * line) + 1}"), _arrived.Texts);
        Assert.Equal(50, buffer.GetStatistics().ExpiredMessages);
    }

    [Fact]
    public async Task Of_several_routes_the_first_decides()
    {
        var (near, far) = (new CollectingTransport(), new ScriptedTransport(_arrived));
        var stalled = far.Stall();
        var group = Some.Group();
        await using var buffer = new OutputBuffer([new OutputRoute("near", near), new OutputRoute("far", far)], new BothRoutes(), timeProvider: _clock);
        buffer.Write(group, "under way");
        await stalled.EnteredAsync();

        buffer.Write(group, "sent by one", Second);
        _clock.Advance(TimeSpan.FromSeconds(1));
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(["under way", "sent by one"], near.Texts);
        Assert.Equal(["under way", "sent by one"], _arrived.Texts);
        Assert.Equal(0, buffer.GetStatistics().ExpiredMessages);
    }

    [Fact]
    public async Task Writes_without_a_time_to_live_do_not_read_the_clock_for_it()
    {
        var clock = new ReadClock();
        await using var buffer = new OutputBuffer(_arrived, timeProvider: clock);
        using var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "first");
        var reads = clock.Reads;

        for (var line = 0; line < 100; line++)
            buffer.Write(_handle, "line", MessageHeader.Prompt);
        Assert.Equal(reads, clock.Reads);

        buffer.Write(_handle, "line", Second);
        Assert.Equal(reads + 1, clock.Reads);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(-1)]
    [InlineData(366L * TimeSpan.TicksPerDay)]
    public async Task A_time_to_live_out_of_its_range_is_an_error_of_the_write(long ticks)
    {
        await using var buffer = Buffer();

        var failure = Assert.Throws<ArgumentException>(() => buffer.Write(_handle, "never", new MessageHeader { TimeToLive = TimeSpan.FromTicks(ticks) }));

        Assert.Contains(nameof(MessageHeader.TimeToLive), failure.Message, StringComparison.Ordinal);
        Assert.Equal(0, buffer.GetStatistics().AcceptedMessages);
    }

    private OutputBuffer Buffer(IBatchTransport? transport = null, OutputBufferOptions? options = null) => new(transport ?? _arrived, options, timeProvider: _clock);

    private sealed class BothRoutes : IOutputRouter
    {
        public ImmutableArray<string> GetRoutes(OutputHandle handle) => ["near", "far"];
    }

    private sealed class LatestTransport(List<(int Index, long Key)[]> batches) : IBatchTransport
    {
        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> sent, CancellationToken cancellationToken)
        {
            foreach (var batch in sent.Span)
                batches.Add([.. batch.LatestMessages.ToArray().Select(static latest => (latest.Index, latest.Key))]);
            return default;
        }
    }

    /// <summary>Counts its reads. Its timers never fire, because they would read it.</summary>
    private sealed class ReadClock : TimeProvider
    {
        public int Reads { get; private set; }

        public override ITimer CreateTimer(TimerCallback callback, object? state, TimeSpan dueTime, TimeSpan period) =>
            base.CreateTimer(callback, state, Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);

        public override long GetTimestamp()
        {
            Reads++;
            return base.GetTimestamp();
        }
    }
}
