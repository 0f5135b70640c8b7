using System.Buffers;
using BatchKit.Testing;

namespace BatchKit.Tests.Buffering;

public sealed class MessageWriterMisuseTests : IAsyncDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _handle = Some.Connection();
    private readonly OutputBuffer _buffer;

    public MessageWriterMisuseTests() => _buffer = new OutputBuffer(_arrived, timeProvider: new ManualTimeProvider());

    public ValueTask DisposeAsync() => _buffer.DisposeAsync();

    [Fact]
    public void A_disposed_writer_and_its_copies_are_refused_even_when_another_is_open_in_its_place()
    {
        var lines = _buffer.BeginWriting(_handle);
        var copy = lines;
        var view = lines.AsBufferWriter();
        lines.Dispose();
        using (var next = _buffer.BeginWriting(_handle))
        {
            next.Write("line 0");
            Assert.IsType<ObjectDisposedException>(WriteFailing(copy, "stale"));
            Assert.Throws<ObjectDisposedException>(() => view.GetSpan());
            copy.Dispose();
            next.Write("line 1");
        }

        Assert.IsType<ObjectDisposedException>(WriteFailing(default, "nothing"));
        Assert.Equal([1, 1], [_arrived.Batches.Count, _buffer.GetStatistics().Batches]);
        Assert.Equal(Some.Lines(2), _arrived.Texts);
    }

    [Fact]
    public void A_message_that_was_not_ended_is_not_written_and_its_object_serves_one_thread()
    {
        using (var lines = _buffer.BeginWriting(_handle))
        {
            var view = lines.AsBufferWriter();
            Assert.NotEqual(0, lines.GetMemory().Length);
            view.Write("line 0"u8);
            Assert.Throws<InvalidOperationException>(() => view.Advance(int.MaxValue));
            Assert.IsType<InvalidOperationException>(OnAnotherThread(() => Record.Exception(() => view.GetSpan())));
            lines.Write("on its own");
            lines.EndMessage();
            view.Write(new byte[2 * 1024 * 1024]);
            Assert.IsType<OutputOverflowException>(EndFailing(lines));
            view.Write("half"u8);
        }

        using (var lines = _buffer.BeginWriting(_handle))
            lines.EndMessage();
        Assert.Equal(["on its own", "line 0", ""], _arrived.Texts);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    public void An_encoder_that_fails_or_uses_the_writer_leaves_the_other_messages_as_they_are(int before)
    {
        using (var lines = _buffer.BeginWriting(_handle))
        {
            foreach (var line in Some.Lines(before))
                lines.Write(line);
            Assert.IsType<FormatException>(EncodeFailing(lines, static (destination, _) => throw new FormatException()));
            Assert.IsType<InvalidOperationException>(EncodeFailing(lines, static (destination, _) => destination.Length + 1));
            Assert.IsType<InvalidOperationException>(EncodeFailing(lines, static (_, writer) => Use(writer, static writer => writer.Write("x"u8))));
            Assert.IsType<InvalidOperationException>(EncodeFailing(lines, static (_, writer) => Use(writer, static writer => writer.Write("x"u8, MessageHeader.Prompt))));
            Assert.IsType<InvalidOperationException>(EncodeFailing(lines, static (_, writer) => Use(writer, static writer => writer.Dispose())));
            Assert.IsType<InvalidOperationException>(EncodeFailing(lines, (_, _) => _buffer.TryWrite(_handle, "x"u8) ? 1 : 0));
            lines.Write("last");
        }

        Assert.Equal([.. Some.Lines(before), "last"], _arrived.Texts);
        Assert.Equal((before + 1, before + 1, 0), (_buffer.GetStatistics().AcceptedMessages, _buffer.GetStatistics().AcknowledgedMessages, _buffer.GetStatistics().PendingMessages));
    }

    // A wait for another task may run it on this thread.
    private static T OnAnotherThread<T>(Func<T> act) => Task.Factory.StartNew(act, CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default).GetAwaiter().GetResult();

    // A lambda can't capture a writer.
    private static Exception? WriteFailing(MessageWriter lines, string text)
    {
        try
        {
            lines.Write(text);
            return null;
        }
        catch (Exception failure)
        {
            return failure;
        }
    }

    private static Exception? EndFailing(MessageWriter lines)
    {
        try
        {
            lines.EndMessage();
            return null;
        }
        catch (Exception failure)
        {
            return failure;
        }
    }

    private static Exception? EncodeFailing(MessageWriter lines, MessageEncoder<MessageWriter> encode)
    {
        try
        {
            lines.Write(maxBytes: 10, lines, encode);
            return null;
        }
        catch (Exception failure)
        {
            return failure;
        }
    }

    private static int Use(MessageWriter writer, Action<MessageWriter> use)
    {
        use(writer);
        return 1;
    }
}
