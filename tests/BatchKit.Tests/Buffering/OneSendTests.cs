using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

/// <summary>What a scope held leaves in one send when it closes.</summary>
public sealed class OneSendTests
{
    private static readonly byte[] Line = Some.RandomBytes(187);

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly OutputHandle _handle = Some.Connection();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_scope_with_more_lines_than_a_batch_takes_leaves_in_one_send_and_not_before_it_closes(bool ambient)
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);

        using (ambient ? buffer.BeginBufferingScope() : buffer.BeginBufferingScope(_handle))
        {
            WriteLines(buffer, 1000);
            Assert.Empty(_arrived.Batches);
        }

        Assert.Equal([3], _arrived.BatchesOfSends);
        Assert.Equal(1000, _arrived.MessageCount);
    }

    [Fact]
    public async Task Ambient_scopes_on_one_handle_share_the_batch_that_another_scope_holds()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);

        using (buffer.BeginBufferingScope(_handle))
        {
            foreach (var line in Some.Lines(100))
            {
                using (buffer.BeginBufferingScope())
                    buffer.Write(_handle, line);
            }
        }

        Assert.Single(_arrived.Batches);
        Assert.Equal(Some.Lines(100), _arrived.Texts);
    }

    [Fact]
    public async Task An_ambient_scope_joins_no_batch_that_other_output_was_begun_behind()
    {
        await using var buffer = new OutputBuffer(_arrived, timeProvider: _clock);
        var (room, other) = (Some.Group(), Some.Connection());

        using (buffer.BeginBufferingScope(room))
        using (buffer.BeginBufferingScope(other))
        {
            Write("first");
            Write("second");
        }

        Assert.Equal(["room first", "room second", "other first", "other second"], _arrived.Texts.OrderByDescending(static text => text.StartsWith("room", StringComparison.Ordinal)));
        Assert.Equal(2, _arrived.Batches.Count(batch => batch.Handle == room));

        void Write(string text)
        {
            using (buffer.BeginBufferingScope())
            {
                buffer.Write(room, $"room {text}");
                buffer.Write(other, $"other {text}");
            }
        }
    }

    [Fact]
    public async Task A_scope_larger_than_a_send_leaves_when_it_closes_in_order_and_in_full_sends()
    {
        await using var buffer = new OutputBuffer(_arrived, new OutputBufferOptions { MaxSendBytes = 100_000, MaxBatchBytes = 10_000 }, timeProvider: _clock);

        using (buffer.BeginBufferingScope(_handle))
        {
            for (var line = 0; line < 2000; line++)
                buffer.Write(_handle, $"{line,187}");
            Assert.Empty(_arrived.Batches);
        }

        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal(Enumerable.Range(0, 2000).Select(line => $"{line,187}"), _arrived.Texts);
        Assert.InRange(_arrived.BatchesOfSends.Count, 4, 5);
    }

    [Fact]
    public async Task A_backlog_before_a_scope_does_not_split_what_the_scope_held()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxSendBytes = 250_000 }, timeProvider: _clock);
        buffer.Write(Some.Connection(), "under way");
        await stalled.EnteredAsync();
        for (var count = 0; count < 2; count++)
            buffer.Write(Some.Connection(), new byte[60_000]);

        using (buffer.BeginBufferingScope(_handle))
            WriteLines(buffer, 1000);
        buffer.Write(Some.Connection(), "behind");
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal([1, 2, 4], _arrived.BatchesOfSends);
        Assert.Equal([60_000, 60_000], _arrived.Batches.Skip(1).Take(2).Select(batch => batch.Messages[0].Payload.Length));
    }

    [Fact]
    public async Task A_backlog_before_an_ambient_scope_does_not_split_what_the_scope_held()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxSendBatches = 10 }, timeProvider: _clock);
        buffer.Write(Some.Connection(), "under way");
        await stalled.EnteredAsync();
        for (var count = 0; count < 4; count++)
            buffer.Write(Some.Connection(), "backlog");

        using (buffer.BeginBufferingScope())
        {
            for (var count = 0; count < 9; count++)
                buffer.Write(Some.Connection(), "in the scope");
        }

        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();

        Assert.Equal([1, 4, 9], _arrived.BatchesOfSends);
    }

    private void WriteLines(OutputBuffer buffer, int count)
    {
        for (var line = 0; line < count; line++)
            buffer.Write(_handle, Line);
    }
}
