using BatchKit.Batches;
using System.Text;
using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>Values of which a receiver needs the latest: a newer one takes the place of the one with its key that waits.</summary>
public sealed class LatestValueTests
{
    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Fact]
    public async Task One_that_never_fits_beside_its_key_is_refused_for_good()
    {
        await using var buffer = Buffer(new OutputBufferOptions { MaxBufferedBytes = 1024, MaxBufferedBytesPerHandle = 1024, MaxMessageBytes = 1020 });

        var error = Assert.Throws<OutputOverflowException>(() => buffer.WriteLatest(Some.Connection(), 1, new byte[1020]));

        Assert.True(error.IsPermanent);
        Assert.StartsWith("A message that takes 1096 bytes is larger than MaxBufferedBytes (1024).", error.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_newest_value_leaves_in_the_place_of_the_oldest_that_waits()
    {
        await using var buffer = Buffer();
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.WriteLatest(_handle, 1, Some.Bytes("x=1"));
            buffer.Write(_handle, "hello");
            buffer.WriteLatest(_handle, 2, Some.Bytes("y=1"));
            buffer.WriteLatest(_handle, 1, Some.Bytes("x=2"));
            buffer.WriteLatest(_handle, 1, Some.Bytes("x=3"));
        }

        Assert.Equal(["x=3", "hello", "y=1"], _arrived.Texts);
        var statistics = buffer.GetStatistics();
        Assert.Equal((5, 3, 2, 0), (statistics.AcceptedMessages, statistics.AcknowledgedMessages, statistics.SupersededMessages, statistics.PendingMessages));
        Assert.Equal((17, 0), (statistics.AcceptedBytes, statistics.BufferedBytes));
    }

    [Fact]
    public async Task A_value_replaces_none_that_someone_whom_it_excludes_would_get()
    {
        var (hall, ana, bob) = (Some.Group(), Some.Connection(), Some.Connection());
        await using var buffer = Buffer();
        using (buffer.BeginBufferingScope(hall))
        {
            buffer.WriteLatest(hall, 1, Some.Bytes("to all"));
            buffer.WriteLatest(hall, 1, Some.Bytes("not to Ana"), new MessageHeader { ExcludedConnections = [ana] });
            buffer.WriteLatest(hall, 1, Some.Bytes("nor to Bob"), new MessageHeader { ExcludedConnections = [ana, bob] });
            buffer.WriteLatest(hall, 1, Some.Bytes("to Ana"), new MessageHeader { ExcludedConnections = [bob] });
            buffer.WriteLatest(hall, 1, Some.Bytes("to all again"));
        }

        Assert.Equal(["to all", "not to Ana", "to all again"], _arrived.Texts);
        Assert.Equal(2, buffer.GetStatistics().SupersededMessages);
    }

    [Fact]
    public async Task Keys_count_until_their_values_are_sent_so_that_many_of_them_fill_the_buffer()
    {
        await using var buffer = Buffer(new OutputBufferOptions { MaxBufferedBytes = 64 * 1024, MaxMessageBytes = 1000, Overflow = OverflowPolicy.Fail });
        using var scope = buffer.BeginBufferingScope(_handle);

        var keys = 0;
        while (buffer.TryWriteLatest(_handle, keys, []))
            keys++;

        Assert.InRange(keys, 64 * 1024 / (2 * (LatestValues.KeyBytes + 4)), 64 * 1024 / LatestValues.KeyBytes);
        Assert.True(buffer.TryWriteLatest(_handle, 0, []));
        scope.Dispose();
        Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
        Assert.True(buffer.TryWriteLatest(_handle, keys, []));
    }

    [Fact]
    public async Task Values_of_other_handles_and_what_was_sent_are_left_alone()
    {
        await using var buffer = Buffer();
        var group = Some.Group();

        buffer.WriteLatest(_handle, 1, "1");
        buffer.WriteLatest(_handle, 1, "2");
        buffer.WriteLatest(group, 1, "3");
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal(["1", "2", "3"], _arrived.Texts);
        Assert.Equal(0, buffer.GetStatistics().SupersededMessages);
    }

    [Fact]
    public async Task While_a_send_is_under_way_a_hundred_rounds_of_ticks_leave_one_value_a_key()
    {
        const int Keys = 50;
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        buffer.WriteLatest(_handle, 0, "under way");
        await stalled.EnteredAsync();

        for (var round = 1; round <= 100; round++)
        {
            // Every other round in a scope, as a game's tick is, and with one message between.
            using var scope = round % 2 == 0 ? buffer.BeginBufferingScope(_handle) : default;
            for (var key = 0; key < Keys; key++)
                buffer.WriteLatest(_handle, key, $"{key} at {round:000}");
            buffer.Write(_handle, $"round {round}");
        }

        var pending = buffer.GetStatistics();
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal((1 + Keys + 100, 99 * Keys), (pending.PendingMessages, pending.SupersededMessages));
        Assert.Equal(["under way", .. Enumerable.Range(0, Keys).Select(key => $"{key} at 100"), .. Enumerable.Range(1, 100).Select(round => $"round {round}")], _arrived.Texts);
    }

    [Fact]
    public async Task What_a_sender_has_taken_is_sent_again_unchanged_and_newer_values_go_behind_it()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { RetryDelay = TimeSpan.FromMilliseconds(1) });
        buffer.WriteLatest(_handle, 1, "first");
        await stalled.EnteredAsync();

        buffer.WriteLatest(_handle, 1, "second");
        buffer.WriteLatest(_handle, 1, "third");
        stalled.Fail();

        await buffer.FlushAsync(_handle).WithinDeadline();
        Assert.Equal(["first", "third"], _arrived.Texts);
        Assert.Equal(1, buffer.GetStatistics().SupersededMessages);
    }

    [Fact]
    public async Task A_value_that_was_replaced_gives_its_bytes_back()
    {
        var header = new MessageHeader { Key = "header" };
        await using var buffer = Buffer();
        using var scope = buffer.BeginBufferingScope(_handle);
        buffer.Write(_handle, "before");
        buffer.WriteLatest(_handle, 1, Some.RandomBytes(1000), header);
        buffer.WriteLatest(_handle, 2, Some.RandomBytes(1000));

        buffer.WriteLatest(_handle, 1, Some.RandomBytes(10));
        buffer.WriteLatest(_handle, 2, Some.RandomBytes(20), header);
        await buffer.FlushAsync(_handle).WithinDeadline();

        Assert.Equal(0, buffer.GetPendingBytes(_handle));
        Assert.Equal([6, 10, 20], _arrived.Messages.Select(message => message.Payload.Length));
        Assert.Equal([null, null, "header"], _arrived.Messages.Select(message => message.Header?.Key));
    }

    [Fact]
    public async Task A_queued_value_reserves_what_the_newest_has()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, timeProvider: _clock);
        buffer.Write(_handle, "under way");
        await stalled.EnteredAsync();
        var underWay = buffer.GetPendingBytes(_handle);
        using (buffer.BeginBufferingScope(_handle))
            buffer.WriteLatest(_handle, 1, Some.RandomBytes(1000));

        foreach (var bytes in new[] { 10, 5000, 0, 300 })
        {
            buffer.WriteLatest(_handle, 1, Some.RandomBytes(bytes));
            Assert.Equal(underWay + bytes + OutputBufferOptions.MessageOverheadBytes + LatestValues.KeyBytes, buffer.GetPendingBytes(_handle));
        }

        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(Some.RandomBytes(300), _arrived.Messages[^1].Payload);
    }

    [Fact]
    public async Task Values_of_every_size_arrive_whole_between_messages_that_stay()
    {
        var random = new Random(1);
        await using var buffer = Buffer();
        var expected = new byte[40][];
        using (buffer.BeginBufferingScope(_handle))
        {
            for (var count = 0; count < 5000; count++)
            {
                var key = count < expected.Length ? count : random.Next(expected.Length / 2) * 2;
                expected[key] = Some.RandomBytes(random.Next(random.Next(2) == 0 ? 20 : 1000), count);
                if (key % 2 == 0)
                    buffer.WriteLatest(_handle, key, expected[key]);
                else
                    buffer.Write(_handle, expected[key]);
            }
        }

        Assert.Equal(expected, _arrived.Messages.Select(message => message.Payload));
        Assert.Equal(0, buffer.GetPendingBytes(_handle));
    }

    [Fact]
    public async Task A_larger_value_whose_batch_is_full_goes_behind_what_waits()
    {
        await using var buffer = Buffer(new OutputBufferOptions { MaxBatchBytes = 256, MaxMessageBytes = 200 });
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.WriteLatest(_handle, 1, Some.Bytes("small"));
            buffer.Write(_handle, Some.RandomBytes(200));
            buffer.WriteLatest(_handle, 1, Some.RandomBytes(150));
            buffer.WriteLatest(_handle, 1, Some.RandomBytes(160));
        }

        Assert.Equal([5, 200, 160], _arrived.Messages.Select(message => message.Payload.Length));
        Assert.Equal([2, 1], _arrived.Batches.Select(batch => batch.Messages.Count));
        Assert.Equal(1, buffer.GetStatistics().SupersededMessages);
    }

    [Fact]
    public async Task A_header_that_is_no_longer_repeated_counts_in_its_batch()
    {
        var (header, other) = (new MessageHeader { Key = new string('h', 100) }, new MessageHeader { Key = new string('o', 100) });
        await using var buffer = Buffer(new OutputBufferOptions { MaxBatchBytes = 1100, MaxMessageBytes = 400 });
        using (buffer.BeginBufferingScope(_handle))
        {
            for (var key = 1; key <= 3; key++)
                buffer.WriteLatest(_handle, key, Some.Bytes("value"), header);
            buffer.WriteLatest(_handle, 2, Some.Bytes("other"), other);
            buffer.Write(_handle, Some.RandomBytes(60));
        }

        Assert.Equal([3, 1], _arrived.Batches.Select(batch => batch.Messages.Count));
        Assert.Equal(["h", "o", "h", null], _arrived.Messages.Select(message => message.Header?.Key?[..1]));
    }

    [Fact]
    public async Task When_an_encoder_fails_the_older_value_stays()
    {
        await using var buffer = Buffer();
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.WriteLatest(_handle, 1, maxBytes: 10, "old", static (destination, text) => Encoding.UTF8.GetBytes(text, destination));
            Assert.Throws<InvalidOperationException>(() => buffer.WriteLatest(_handle, 1, maxBytes: 3, 0, static (destination, _) =>
            {
                destination.Fill((byte)'!');
                throw new InvalidOperationException();
            }));
            Assert.Throws<InvalidOperationException>(() => buffer.TryWriteLatest(_handle, 1, maxBytes: 3, 0, static (_, _) => 4));
        }

        Assert.Equal(["old"], _arrived.Texts);
        Assert.Equal((1, 0), (buffer.GetStatistics().AcceptedMessages, buffer.GetStatistics().SupersededMessages));
    }

    [Fact]
    public async Task Behind_a_value_that_was_turned_away_an_ambient_scope_keeps_its_order()
    {
        await using var buffer = Buffer();
        var (group, other) = (Some.Group(), Some.Group());
        using (buffer.BeginBufferingScope())
        {
            buffer.WriteLatest(group, 1, "first");
            buffer.Write(other, "second");
            Assert.Throws<InvalidOperationException>(() => buffer.WriteLatest(group, 1, maxBytes: 3, 0, static (_, _) => 4));
            buffer.Write(group, "third");
        }

        Assert.Equal(["first", "second", "third"], _arrived.Texts);
    }

    [Fact]
    public async Task In_a_full_buffer_a_value_that_is_not_larger_is_accepted_and_a_larger_one_leaves_the_older()
    {
        await using var buffer = Buffer(new OutputBufferOptions { MaxBufferedBytes = 1024, MaxBufferedBytesPerHandle = 1024, MaxMessageBytes = 1000 });
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.WriteLatest(_handle, 1, Some.Bytes("old"));
            while (buffer.TryWrite(_handle, Some.RandomBytes(100)))
            {
            }

            Assert.True(buffer.TryWriteLatest(_handle, 1, Some.Bytes("new")));
            Assert.False(buffer.TryWriteLatest(_handle, 1, Some.RandomBytes(500)));
            Assert.Throws<OutputOverflowException>(() => buffer.WriteLatest(_handle, 1, Some.RandomBytes(500)));
        }

        Assert.Equal("new", _arrived.Texts[0]);
    }

    [Fact]
    public async Task Every_way_to_write_a_latest_value_replaces_the_one_before()
    {
        await using var buffer = new CollectingOutputBuffer();
        var typed = new TypedOutput(buffer, new JsonMessageCodec(SomeJson.Default));
        using (buffer.BeginBufferingScope(_handle))
        {
            buffer.WriteLatest(_handle, 1, [0]);
            Assert.True(buffer.TryWriteLatest(_handle, 1, [1]));
            buffer.WriteLatest(_handle, 1, "2");
            buffer.WriteLatest(_handle, 1, "3".AsSpan());
            buffer.WriteLatest(_handle, 1, $"{4}");
            buffer.WriteLatest(_handle, 1, null, $"{5}");
            buffer.WriteLatest(_handle, 1, maxBytes: 1, 6, static (destination, digit) => EncodeDigit(destination, digit));
            Assert.True(buffer.TryWriteLatest(_handle, 1, maxBytes: 1, 7, static (destination, digit) => EncodeDigit(destination, digit)));
            typed.WriteLatest(_handle, 1, new ChatLine("Ana", "eight"));
        }

        Assert.Equal((9, 8, 1), (buffer.GetStatistics().AcceptedMessages, buffer.GetStatistics().SupersededMessages, buffer.Messages.Count));
        Assert.Contains("eight", buffer.Texts[0], StringComparison.Ordinal);
        Assert.Throws<ArgumentNullException>(() => buffer.WriteLatest(_handle, 1, (string)null!));
        Assert.Throws<ArgumentNullException>(() => buffer.WriteLatest(_handle, 1, maxBytes: 1, 0, encode: null!));
        Assert.Throws<ArgumentOutOfRangeException>(() => buffer.TryWriteLatest(_handle, 1, maxBytes: -1, 0, static (_, _) => 0));
    }

    private static int EncodeDigit(Span<byte> destination, int digit)
    {
        destination[0] = (byte)('0' + digit);
        return 1;
    }

    private OutputBuffer Buffer(OutputBufferOptions? options = null) => new(_arrived, options, timeProvider: _clock);
}
