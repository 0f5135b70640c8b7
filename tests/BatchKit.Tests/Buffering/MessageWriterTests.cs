using System.Buffers;
using System.Globalization;
using System.Text;
using BatchKit.Testing;
using BatchKit.Tests.Support;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

public sealed class MessageWriterTests : IAsyncDisposable
{
    private static readonly NumberFormatInfo WithComma = new() { NumberDecimalSeparator = "," };

    private readonly CollectingTransport _arrived = new();
    private readonly ManualTimeProvider _clock = new();
    private readonly CollectingLogger _logger = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly OutputBuffer _buffer;

    public MessageWriterTests() => _buffer = Create(new OutputBufferOptions { MaxScopeAge = TimeSpan.FromSeconds(8) });

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void All_that_a_writer_wrote_in_whatever_way_leaves_as_one_batch_when_it_is_disposed(bool overAnothersBuffer)
    {
        var output = overAnothersBuffer ? new ForwardingBuffer(_buffer) : (IOutputBuffer)_buffer;
        var number = 1.5;
        var header = Some.FullHeader();
        using (var lines = output.BeginWriting(_handle))
        {
            lines.Write("bytes"u8);
            lines.Write("text", MessageHeader.Prompt);
            lines.Write($"interpolated {number:0}");
            lines.Write(WithComma, $"{number:0.0}");
            lines.Write(maxBytes: 100, "in place", static (destination, text) => Encoding.UTF8.GetBytes(text, destination));
            Assert.True(lines.TryWrite(maxBytes: 8, "tried in", static (destination, text) => Encoding.UTF8.GetBytes(text, destination), header));
            Assert.True(lines.TryWrite("tried"u8));
            Assert.True(lines.TryWrite([], MessageHeader.Prompt));
            Encoding.UTF8.GetBytes("by parts, ", lines.GetSpan(10));
            lines.Advance(10);
            lines.AsBufferWriter().Write("two"u8);
            lines.EndMessage(MessageHeader.Prompt);
            new TypedOutput(output, new JsonMessageCodec(SomeJson.Default)).Write(lines, new ChatLine("Bob", "typed"));
            lines.Write(ControlMessage.JoinGroup("lobby"));
            Assert.Equal(0, _arrived.MessageCount);
        }

        var batch = Assert.Single(_arrived.Batches);
        Assert.Equal(["bytes", "text", "interpolated 2", "1,5", "in place", "tried in", "tried", "", "by parts, two"], batch.Messages.Take(9).Select(message => message.Text));
        Assert.Contains("typed", batch.Messages[9].Text, StringComparison.Ordinal);
        Assert.Equal([0, 1, 0, 0, 0, 1, 0, 1, 1, 0, 2], batch.Messages.Select(message => (int)message.Kind));
        Assert.Equivalent(header, batch.Messages[5].Header);
        Assert.Equal((0, 0), (_buffer.GetStatistics().OpenScopes, _buffer.GetStatistics().BufferedBytes));
    }

    [Theory]
    [InlineData(1)]
    [InlineData(3)]
    [InlineData(10_000)]
    public async Task What_others_write_meanwhile_is_before_or_behind_a_writers_messages_and_never_between(int maxBatchMessages)
    {
        await using var buffer = Create(new OutputBufferOptions { MaxBatchMessages = maxBatchMessages });
        using (var outer = buffer.BeginWriting(_handle))
        {
            outer.Write("outer 0");
            buffer.Write(_handle, "before all");
            using (var inner = buffer.BeginWriting(_handle))
            {
                for (var line = 0; line < 7; line++)
                {
                    inner.Write($"inner {line}");
                    outer.Write($"outer {line + 1}");
                    buffer.Write(_handle, "before the inner");
                }
            }

            buffer.Write(_handle, "behind the inner");
            Assert.Equal(0, _arrived.MessageCount);
        }

        buffer.Write(_handle, "behind all");
        string[] expected =
        [
            "before all", .. Enumerable.Repeat("before the inner", 7), .. Enumerable.Range(0, 7).Select(line => $"inner {line}"), "behind the inner",
            .. Enumerable.Range(0, 8).Select(line => $"outer {line}"), "behind all",
        ];
        await _arrived.WaitForMessagesAsync(expected.Length);
        Assert.Equal(expected, _arrived.Texts);
        Assert.All(_arrived.Batches, batch => Assert.InRange(batch.Messages.Count, 1, maxBatchMessages));
    }

    [Fact]
    public void Its_messages_are_accepted_and_pending_from_their_write_on()
    {
        using (var lines = _buffer.BeginWriting(_handle))
        {
            for (var count = 1; count <= 100; count++)
            {
                lines.Write("12345"u8, count % 7 == 0 ? MessageHeader.Prompt : null);
                var statistics = _buffer.GetStatistics();
                Assert.Equal((count, count, count * 5), (statistics.AcceptedMessages, statistics.PendingMessages, statistics.AcceptedBytes));
                Assert.InRange(_buffer.GetPendingBytes(_handle), count * 9, statistics.BufferedBytes);
            }
        }

        Assert.Equal((100, 100, 0), (_buffer.GetStatistics().AcceptedMessages, _buffer.GetStatistics().AcknowledgedMessages, _buffer.GetPendingBytes(_handle)));
    }

    [Theory]
    [InlineData(Need.Flush)]
    [InlineData(Need.FlushOfAll)]
    [InlineData(Need.EndOfScope)]
    [InlineData(Need.Age)]
    public void What_a_writer_has_leaves_when_others_need_it_and_the_writer_goes_on(Need need)
    {
        var lines = _buffer.BeginWriting(_handle, openerLine: 42, openerFile: "Dolist.cs");
        lines.Write("line 0");
        lines.Write("line 1");

        Meet(need);

        Assert.Equal(Some.Lines(2), _arrived.Texts);
        lines.Write("line 2");
        lines.Dispose();
        lines.Dispose();
        Assert.Equal(Some.Lines(3), _arrived.Texts);
        Assert.Equal(need == Need.Age, _logger.Lines.Any(line => line.Contains("Dolist.cs:42", StringComparison.Ordinal)));
        Assert.Equal(0, _buffer.GetStatistics().OpenScopes);
    }

    [Fact]
    public void A_stop_sends_what_a_writer_has_and_the_writer_takes_no_more()
    {
        using var lines = _buffer.BeginWriting(_handle);
        lines.Write("line 0");

        Stop();

        Assert.False(lines.TryWrite("refused"u8));
        Assert.IsType<ObjectDisposedException>(WriteFailing(lines, "refused"));
        Assert.Equal(Some.Lines(1), _arrived.Texts);
        Assert.Equal((1, 0), (_buffer.GetStatistics().AcknowledgedMessages, _buffer.GetStatistics().PendingMessages));
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.Fail)]
    [InlineData(OverflowPolicy.DropNewest)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task A_full_buffer_does_with_its_messages_what_the_policy_says(OverflowPolicy policy)
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = Create(new OutputBufferOptions { Overflow = policy, MaxBufferedBytes = 4096, MaxMessageBytes = 1024, MaxBatchBytes = 1024 }, transport);
        buffer.Write(Some.Connection(), "under way");
        await stalled.EnteredAsync();
        var (failed, accepted) = WriteUntilFull(buffer);

        Assert.Equal(policy is OverflowPolicy.Wait or OverflowPolicy.Fail, failed);
        Assert.Equal(policy == OverflowPolicy.DropOldest ? 10 : 0, accepted);
        Assert.InRange(buffer.GetStatistics().BufferedBytes, 2048, 4096);
        AssertLaw(buffer.GetStatistics());
        stalled.Release();
        await Record.ExceptionAsync(() => buffer.FlushAsync(_handle).WithinDeadline());
        var statistics = buffer.GetStatistics();
        AssertLaw(statistics);
        Assert.Equal((0, 0), (statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(statistics.AcceptedMessages - statistics.DroppedMessages, _arrived.MessageCount);
        Assert.Equal(_arrived.TextsFor(_handle).Order(StringComparer.Ordinal), _arrived.TextsFor(_handle));
    }

    [Theory]
    [InlineData(OverflowPolicy.Wait)]
    [InlineData(OverflowPolicy.DropOldest)]
    public async Task What_a_writer_has_makes_capacity_for_others(OverflowPolicy policy)
    {
        await using var buffer = Create(new OutputBufferOptions { Overflow = policy, MaxBufferedBytes = 2048, MaxMessageBytes = 1024, MaxBatchBytes = 1024 });
        WriteBesideFullWriter();

        await buffer.FlushAsync().WithinDeadline();
        AssertLaw(buffer.GetStatistics());
        Assert.Contains("other", _arrived.Texts);
        Assert.Equal(policy == OverflowPolicy.Wait, buffer.GetStatistics().DroppedMessages == 0);

        void WriteBesideFullWriter()
        {
            using var lines = buffer.BeginWriting(_handle);
            while (buffer.GetStatistics().BufferedBytes < 1500)
                lines.Write("a line of 20 bytes\r\n"u8);
            Assert.True(buffer.WriteAsync(Some.Connection(), new byte[900]).AsTask().Wait(Deadline.Time));
            Assert.True(buffer.WriteAsync(Some.Connection(), Some.Bytes("other")).AsTask().Wait(Deadline.Time));
            lines.Write("goes on");
        }
    }

    [Fact]
    public void In_an_ambient_scope_its_messages_take_their_place_when_it_is_disposed()
    {
        var (room, player) = (Some.Group(), Some.Connection());
        using (_buffer.BeginBufferingScope())
        {
            _buffer.Write(room, "a");
            using (var lines = _buffer.BeginWriting(player))
            {
                lines.Write("c");
                _buffer.Write(room, "b");
                lines.Write("d");
            }

            _buffer.Write(room, "e");
            _buffer.Write(player, "f");
        }

        Assert.Equal(["a", "b", "c", "d", "e", "f"], _arrived.Texts);
    }

    [Fact]
    public async Task A_long_loop_before_a_short_one_costs_the_short_one_neither_memory_nor_capacity()
    {
        var transport = new ScriptedTransport(_arrived);
        var stalled = transport.Stall();
        await using var buffer = Create(new OutputBufferOptions(), transport);
        foreach (var messages in new[] { 1000, 2, 1000, 100, 3 })
            WriteLoop(buffer, messages);

        await stalled.EnteredAsync();
        Assert.Equal(2105 * (20 + OutputBufferOptions.MessageOverheadBytes), buffer.GetStatistics().BufferedBytes);
        stalled.Release();
        await buffer.FlushAsync().WithinDeadline();
        Assert.Equal([1000, 2, 1000, 100, 3], _arrived.Batches.Select(batch => batch.Messages.Count));
        Assert.All(_arrived.Messages, message => Assert.Equal("a line of 20 bytes\r\n", message.Text));
    }

    [Fact]
    public async Task A_message_is_held_to_the_limits_of_other_writes()
    {
        await using var buffer = Create(new OutputBufferOptions { MaxMessageBytes = 100, MaxBatchBytes = 256 });
        using (var lines = buffer.BeginWriting(_handle))
        {
            lines.Write("before");
            Assert.IsType<OutputOverflowException>(WriteFailing(lines, new string('x', 101)));
            Assert.IsType<ArgumentException>(WriteFailing(lines, "x", new MessageHeader { Kind = (MessageKind)9 }));
            for (var count = 0; count < 20; count++)
                lines.Write(new string('y', 100));
        }

        await _arrived.WaitForMessagesAsync(21);
        Assert.All(_arrived.Batches, batch => Assert.InRange(batch.Messages.Sum(message => message.Payload.Length + OutputBufferOptions.MessageOverheadBytes), 1, 256));
        Assert.Throws<ArgumentException>(() => buffer.BeginWriting(default).Dispose());
    }

    private OutputBuffer Create(OutputBufferOptions options, ScriptedTransport? transport = null) =>
        new((IBatchTransport?)transport ?? _arrived, options, timeProvider: _clock, logger: _logger);

    private void WriteLoop(OutputBuffer buffer, int messages)
    {
        using var lines = buffer.BeginWriting(_handle);
        for (; messages > 0; messages--)
            lines.Write("a line of 20 bytes\r\n"u8);
    }

    private void Stop() => Assert.True(_buffer.StopAsync(CancellationToken.None).Wait(Deadline.Time));

    private void Meet(Need need)
    {
        switch (need)
        {
            case Need.Flush:
                Assert.True(OnAnotherThread(() => _buffer.FlushAsync(_handle).AsTask()).IsCompletedSuccessfully);
                break;
            case Need.FlushOfAll:
                Assert.True(_buffer.FlushAsync().IsCompletedSuccessfully);
                break;
            case Need.EndOfScope:
                Assert.True(_buffer.EndBufferingScope(_handle));
                break;
            case Need.Age:
                _clock.Advance(TimeSpan.FromSeconds(10));
                break;
        }
    }

    // A wait for another task may run it on this thread.
    private static T OnAnotherThread<T>(Func<T> act) => Task.Factory.StartNew(act, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default).GetAwaiter().GetResult();

    // Until one does not get in, and ten more.
    private (bool Failed, int Accepted) WriteUntilFull(OutputBuffer buffer)
    {
        using var lines = buffer.BeginWriting(_handle);
        var (failed, accepted, text) = (false, 0, new string('x', 90));
        for (var line = 0; !failed && buffer.GetStatistics() is { RefusedMessages: 0, DroppedMessages: 0 }; line++)
            failed = WriteFailing(lines, $"line {line:0000} {text}") is OutputOverflowException;
        for (var line = 9000; line < 9010; line++)
            accepted += lines.TryWrite(Some.Bytes($"line {line:0000} {text}")) ? 1 : 0;
        return (failed, accepted);
    }

    private static void AssertLaw(OutputStatistics statistics) => Assert.Equal(
        statistics.AcceptedMessages,
        statistics.AcknowledgedMessages + statistics.FailedMessages + statistics.DroppedMessages + statistics.SupersededMessages + statistics.PendingMessages);

    // A lambda can't capture a writer.
    private static Exception? WriteFailing(MessageWriter lines, string text, MessageHeader? header = null)
    {
        try
        {
            lines.Write(text, header);
            return null;
        }
        catch (Exception failure)
        {
            return failure;
        }
    }

    /// <summary>Who needs a writer's messages before it is disposed.</summary>
    public enum Need
    {
        Flush,
        FlushOfAll,
        EndOfScope,
        Age,
    }
}
