using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

/// <summary>What a scope writes to several handles in turn takes little more of a frame than the same lines handle by handle.</summary>
public sealed class InterleavedFrameTests
{
    private const int Lines = 999;

    private static readonly OutputHandle[] Names = [Some.Group(), Some.Group(), Some.Group()];
    private static readonly OutputHandle[] Mixed = [Some.Connection(), Some.Group(), Some.Connection()];

    [Theory]
    [InlineData(false, 10, false)]
    [InlineData(false, 20, false)]
    [InlineData(false, 187, false)]
    [InlineData(false, 20, true)]
    [InlineData(true, 10, false)]
    [InlineData(true, 187, false)]
    [InlineData(true, 20, true)]
    public async Task Lines_written_in_turn_take_at_most_a_fifth_more_than_grouped_ones_and_keep_their_order(bool isMixed, int lineBytes, bool hasHeaders)
    {
        var handles = isMixed ? Mixed : Names;
        var turns = Enumerable.Range(0, Lines).ToArray();

        var inTurn = await SendAsync(handles, lineBytes, hasHeaders, turns);
        var grouped = await SendAsync(handles, lineBytes, hasHeaders, [.. turns.OrderBy(line => line % handles.Length)]);

        Assert.InRange(inTurn.Length, 1, grouped.Length * 1.2);
        using var frame = FrameReader.Read(inTurn);
        var arrived = frame.Batches.ToArray().SelectMany(static batch => Enumerable.Range(0, batch.Count).Select(message => (batch.Handle, Message: batch[message]))).ToList();
        foreach (var handle in handles)
            Assert.Equal(turns.Where(line => handles[line % 3] == handle), arrived.Where(line => line.Handle == handle).Select(static line => BitConverter.ToInt32(line.Message.Payload.Span)));
        if (!isMixed)
            Assert.Equal(turns, arrived.Select(static line => BitConverter.ToInt32(line.Message.Payload.Span)));
        Assert.All(arrived, line => Assert.Equal(hasHeaders ? MessageKind.Prompt : MessageKind.Output, line.Message.Kind));
    }

    [Fact]
    public void Batches_of_any_shape_for_more_handles_than_a_frame_numbers_are_read_as_they_were_written()
    {
        var producer = Some.Producer();
        OutputHandle[] handles = [.. Enumerable.Range(0, 100).Select(static index => index % 3 == 0 ? Some.Group() : Some.Connection())];
        var batches = Enumerable.Range(1, 2000).Select(number => MessageBatch.Create(handles[number * 7 % (number < 1000 ? 100 : 10)], producer, number * (number % 5 == 0 ? 3L : 1L) + (number * 10L),
            [.. Enumerable.Range(0, 1 + (number % 11 == 0 ? 2 : 0)).Select(message => Some.Message($"{number} {message}", number % 4 == 0 ? Some.FullHeader() : null))]))
            .OrderBy(static batch => batch.Number).DistinctBy(static batch => batch.Number).ToArray();

        using var frame = FrameReader.Read(Some.Frame(batches));

        Assert.Equal(batches.Select(Describe), frame.Batches.ToArray().Select(Describe));
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(long.MaxValue)]
    public void No_number_comes_behind_the_highest_one(long number)
    {
        // Magic, version, node, epoch, partition, two batches; flags, number, handle, one message, its bytes, its length, its payload.
        byte[] batch = [1, 1, 1, 1, (byte)'a'];
        byte[] frame = [.. "BKF"u8, FrameFormat.Version, 0, .. new byte[8], 0, 2, 0, .. Varint(long.MaxValue), .. batch, 0, .. Varint(number), .. batch];

        Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame));
        frame[14] = 1;
        FrameReader.Read(frame.AsMemory(0, frame.Length - 6 - Varint(number).Length)).Dispose();
    }

    private static async Task<byte[]> SendAsync(OutputHandle[] handles, int lineBytes, bool hasHeaders, int[] lines)
    {
        var frames = new List<byte[]>();
        using var transport = new FrameTransport(
            (frame, _) =>
            {
                frames.Add(frame.Bytes.ToArray());
                return ValueTask.CompletedTask;
            },
            new FrameTransportOptions { DestinationNode = 1, PublishesWithoutBlocking = true });
        await using var buffer = new OutputBuffer(transport);
        var line = new byte[lineBytes];

        using (buffer.BeginBufferingScope())
        {
            foreach (var number in lines)
            {
                BitConverter.TryWriteBytes(line, number);
                buffer.Write(handles[number % handles.Length], line, hasHeaders ? MessageHeader.Prompt : null);
            }
        }

        await buffer.FlushAsync().WithinDeadline();
        return Assert.Single(frames);
    }

    private static string Describe(MessageBatch batch) =>
        $"{batch.Handle} {batch.Number} {string.Join('|', Enumerable.Range(0, batch.Count).Select(message => $"{System.Text.Encoding.UTF8.GetString(batch[message].Payload.Span)} {batch[message].Header?.Key}"))}";

    private static byte[] Varint(long number)
    {
        var bytes = new byte[10];
        return bytes[..VarintWriter.Write(bytes, 0, (ulong)number)];
    }
}
