using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

public sealed class MessageWriterThreadsTests
{
    private const int Writers = 4;
    private const int Loops = 400;
    private const int MostMessages = 60;

    private readonly OutputHandle[] _handles = [.. Enumerable.Range(0, 2).Select(_ => Some.Connection())];

    [Theory]
    [InlineData(OverflowPolicy.Fail, 64 << 20)]
    [InlineData(OverflowPolicy.Fail, 64 * 1024)]
    [InlineData(OverflowPolicy.DropOldest, 64 * 1024)]
    public async Task Writers_on_many_threads_keep_their_order_beside_flushes_sweeps_and_statistics(OverflowPolicy policy, int maxBufferedBytes)
    {
        var arrived = new CollectingTransport();
        var options = new OutputBufferOptions { Overflow = policy, MaxBufferedBytes = maxBufferedBytes, MaxMessageBytes = 1024, MaxBatchBytes = 2048, MaxBatchMessages = 64, MaxScopeAge = TimeSpan.FromMilliseconds(50) };
        await using var buffer = new OutputBuffer(arrived, options);
        using var ended = new CancellationTokenSource();
        var others = new[] { Repeat(() => Flush(buffer), ended.Token), Repeat(() => CheckLaw(buffer), ended.Token), Repeat(() => WriteAlone(buffer), ended.Token) };

        var accepted = await Task.WhenAll(Enumerable.Range(0, Writers).Select(writer => Task.Run(() => WriteLoops(buffer, writer)))).WaitAsync(Deadline.Time);
        await ended.CancelAsync();
        await Task.WhenAll(others).WithinDeadline();
        await Record.ExceptionAsync(() => buffer.FlushAsync().WithinDeadline());

        var statistics = buffer.GetStatistics();
        Assert.Equal((0, 0), (statistics.PendingMessages, statistics.BufferedBytes));
        Assert.Equal(statistics.AcceptedMessages, statistics.AcknowledgedMessages + statistics.DroppedMessages);
        var messages = arrived.Messages.Where(message => message.Text[0] != 'x').ToList();
        Assert.InRange(messages.Count, accepted.Sum() - statistics.DroppedMessages, accepted.Sum());
        foreach (var ofOne in messages.Select(static message => (message.Handle, Numbers: message.Text.Split('.').Select(int.Parse).ToArray())).GroupBy(message => (message.Handle, message.Numbers[0])))
            Assert.Equal(ofOne.Select(message => message.Numbers[1]).Order(), ofOne.Select(message => message.Numbers[1]));
    }

    [Fact]
    public async Task What_a_writer_wrote_is_never_mixed_with_the_messages_of_others()
    {
        var arrived = new CollectingTransport();
        await using var buffer = new OutputBuffer(arrived, new OutputBufferOptions { MaxBatchMessages = 16 });

        await Task.WhenAll(Enumerable.Range(0, Writers).Select(writer => Task.Run(() => WriteLoops(buffer, writer)))).WaitAsync(Deadline.Time);
        await buffer.FlushAsync().WithinDeadline();

        foreach (var handle in _handles)
        {
            var loops = arrived.MessagesFor(handle).Select(static message => message.Text.Split('.')).Select(static parts => (Writer: parts[0], Loop: parts[2])).ToList();
            var runs = loops.Where((loop, index) => index == 0 || loop != loops[index - 1]).ToList();
            Assert.Equal(runs.Count, runs.Distinct().Count());
        }
    }

    private int WriteLoops(OutputBuffer buffer, int writer)
    {
        var random = new Random(writer);
        var (number, accepted) = (0, 0);
        for (var loop = 0; loop < Loops; loop++)
        {
            using var lines = buffer.BeginWriting(_handles[random.Next(_handles.Length)]);
            for (var count = random.Next(MostMessages); count > 0; count--)
            {
                var text = Some.Bytes($"{writer}.{++number}.{loop}");
                var header = random.Next(9) == 0 ? MessageHeader.Prompt : null;
                var isAccepted = random.Next(4) == 0
                    ? lines.TryWrite(maxBytes: 40, text, static (destination, bytes) => bytes.AsSpan().TryCopyTo(destination) ? bytes.Length : -1, header)
                    : lines.TryWrite(text, header);
                accepted += isAccepted ? 1 : 0;
            }
        }

        return accepted;
    }

    private static async Task Repeat(Func<Task> act, CancellationToken end)
    {
        while (!end.IsCancellationRequested)
        {
            await Task.Run(act, CancellationToken.None);
            await Task.Yield();
        }
    }

    private async Task Flush(OutputBuffer buffer)
    {
        await Record.ExceptionAsync(() => buffer.FlushAsync(_handles[0]).AsTask());
        buffer.EndBufferingScope(_handles[1]);
    }

    private static Task CheckLaw(OutputBuffer buffer)
    {
        // Another thread's message may be counted between two of the counters.
        Assert.InRange(buffer.GetStatistics().PendingMessages, 0, int.MaxValue);
        return Task.CompletedTask;
    }

    private Task WriteAlone(OutputBuffer buffer)
    {
        buffer.TryWrite(_handles[0], "x"u8);
        return Task.CompletedTask;
    }
}
