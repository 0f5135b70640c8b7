using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Buffering;

/// <summary>One below, at and above each limit of a buffer.</summary>
public sealed class LimitTests : IAsyncDisposable
{
    private readonly CollectingTransport _arrived = new();
    private readonly OutputHandle _first = Some.Connection();
    private readonly OutputHandle _second = Some.Connection();
    private OutputBuffer? _buffer;

    public async ValueTask DisposeAsync()
    {
        if (_buffer is not null)
            await _buffer.DisposeAsync();
    }

    [Theory]
    [InlineData(-1, 1)]
    [InlineData(0, 1)]
    [InlineData(1, 2)]
    public void A_batch_has_up_to_MaxBatchBytes(int above, int batches)
    {
        var buffer = Buffer(new OutputBufferOptions { MaxBatchBytes = 1000 });

        using (buffer.BeginBufferingScope(_first))
        {
            buffer.Write(_first, new byte[600 - OutputBufferOptions.MessageOverheadBytes]);
            buffer.Write(_first, new byte[400 - OutputBufferOptions.MessageOverheadBytes + above]);
        }

        Assert.Equal((batches, 2), (_arrived.Batches.Count, _arrived.Messages.Count));
    }

    [Theory]
    [InlineData(-1, 1)]
    [InlineData(0, 1)]
    [InlineData(1, 2)]
    public void A_batch_has_up_to_MaxBatchMessages(int above, int batches)
    {
        var buffer = Buffer(new OutputBufferOptions { MaxBatchMessages = 3 });

        using (buffer.BeginBufferingScope(_first))
        {
            for (var message = 0; message < 3 + above; message++)
                buffer.Write(_first, "x"u8);
        }

        Assert.Equal((batches, 3 + above), (_arrived.Batches.Count, _arrived.Messages.Count));
    }

    [Theory]
    [InlineData(-1, 1)]
    [InlineData(0, 1)]
    [InlineData(1, 2)]
    public void A_send_has_up_to_MaxSendBytes(int above, int sends)
    {
        var buffer = Buffer(new OutputBufferOptions { MaxSendBytes = 1000 });

        using (buffer.BeginBufferingScope())
        {
            buffer.Write(_first, new byte[600 - OutputBufferOptions.MessageOverheadBytes]);
            buffer.Write(_second, new byte[400 - OutputBufferOptions.MessageOverheadBytes + above]);
        }

        Assert.Equal((sends, 2), (_arrived.BatchesOfSends.Count, _arrived.Messages.Count));
    }

    [Theory]
    [InlineData(1000, 1 << 20, 1)]
    [InlineData(999, 1 << 20, 2)]
    [InlineData(1 << 20, 999, 2)]
    public void The_lower_of_the_buffers_and_the_transports_limit_divides_sends(int ofTransport, int ofBuffer, int sends)
    {
        var transport = new SmallSends(_arrived) { MaxSendBytes = ofTransport };
        using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxSendBytes = ofBuffer });

        using (buffer.BeginBufferingScope())
        {
            buffer.Write(_first, new byte[600 - OutputBufferOptions.MessageOverheadBytes]);
            buffer.Write(_second, new byte[400 - OutputBufferOptions.MessageOverheadBytes]);
        }

        Assert.Equal((sends, 2), (_arrived.BatchesOfSends.Count, _arrived.Messages.Count));
    }

    [Theory]
    [InlineData(-1, 1)]
    [InlineData(0, 1)]
    [InlineData(1, 2)]
    public void A_send_has_up_to_MaxSendBatches(int above, int sends)
    {
        var buffer = Buffer(new OutputBufferOptions { MaxSendBatches = 3 });

        using (buffer.BeginBufferingScope())
        {
            for (var batch = 0; batch < 3 + above; batch++)
                buffer.Write(Some.Connection(), "x"u8);
        }

        Assert.Equal((sends, 3 + above), (_arrived.BatchesOfSends.Count, _arrived.Messages.Count));
    }

    [Theory]
    [InlineData(-1, "true", "returns", "returns")]
    [InlineData(0, "true", "returns", "returns")]
    [InlineData(1, "throws MaxMessageBytes", "throws MaxMessageBytes", "throws MaxMessageBytes")]
    public void A_message_has_up_to_MaxMessageBytes_with_its_header(int above, params string[] outcomes)
    {
        var header = new MessageHeader { Key = "key" };
        var buffer = Buffer(new OutputBufferOptions { MaxMessageBytes = 1000 });
        var payload = new byte[1000 - header.EncodedBytes + above];

        Assert.Equal(outcomes[0], Outcome(() => buffer.TryWrite(_first, payload, header) ? "true" : "false"));
        Assert.Equal(outcomes[1], Outcome(() => Returns(() => buffer.Write(_first, payload, header))));
        Assert.Equal(outcomes[2], Outcome(() => Returns(() =>
        {
            var write = buffer.WriteAsync(_first, payload, header).AsTask();
            Assert.True(write.IsCompleted);
            write.GetAwaiter().GetResult();
        })));
        Assert.Equal(above > 0 ? 0 : 3, buffer.GetStatistics().AcceptedMessages);
    }

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task A_buffer_accepts_up_to_MaxBufferedBytes(int above, bool isAccepted)
    {
        foreach (var policy in (OverflowPolicy[])[OverflowPolicy.Wait, OverflowPolicy.Fail, OverflowPolicy.DropNewest])
        {
            var transport = new ScriptedTransport(_arrived);
            var underWay = transport.Stall();
            await using var buffer = new OutputBuffer(transport, new OutputBufferOptions { MaxBufferedBytes = 4096, MaxMessageBytes = 4092, Overflow = policy });
            buffer.Write(_first, new byte[100]);
            await underWay.EnteredAsync();
            var left = (int)(4096 - buffer.GetStatistics().BufferedBytes);

            var isWritten = buffer.TryWrite(_second, new byte[left - OutputBufferOptions.MessageOverheadBytes + above]);

            Assert.Equal(isAccepted, isWritten);
            Assert.Equal(isAccepted ? 4096 + above : 4096 - left, buffer.GetStatistics().BufferedBytes);
            underWay.Release();
            await buffer.FlushAsync().WithinDeadline();
            Assert.Equal(0, buffer.GetStatistics().BufferedBytes);
        }
    }

    [Fact]
    public async Task A_message_that_fills_the_whole_buffer_is_accepted_by_an_empty_one()
    {
        var buffer = Buffer(new OutputBufferOptions { MaxBufferedBytes = 4096, MaxMessageBytes = 4096 - OutputBufferOptions.MessageOverheadBytes });

        for (var write = 0; write < 10; write++)
        {
            buffer.Write(_first, new byte[4096 - OutputBufferOptions.MessageOverheadBytes]);
            await buffer.FlushAsync().WithinDeadline();
        }

        Assert.Equal((10, 0L), (_arrived.Messages.Count, buffer.GetStatistics().BufferedBytes));
    }

    [Theory]
    [InlineData(-1, "true")]
    [InlineData(0, "true")]
    [InlineData(1, "throws the transport's MaxMessageBytes")]
    public void A_message_has_up_to_the_bytes_that_its_route_takes(int above, string outcome)
    {
        _buffer = new OutputBuffer(new CollectingTransport(maxMessageBytes: 500));

        var actual = Outcome(() => _buffer.TryWrite(_first, new byte[500 + above]) ? "true" : "false");

        Assert.Equal(outcome, actual);
    }

    [Theory]
    [InlineData("x", OutputHandle.MaxNameBytes - 1, true)]
    [InlineData("x", OutputHandle.MaxNameBytes, true)]
    [InlineData("x", OutputHandle.MaxNameBytes + 1, false)]
    [InlineData("é", (OutputHandle.MaxNameBytes - 1) / 2, true)]
    [InlineData("é", (OutputHandle.MaxNameBytes + 1) / 2, false)]
    [InlineData("€", OutputHandle.MaxNameBytes / 3, true)]
    [InlineData("€", (OutputHandle.MaxNameBytes / 3) + 1, false)]
    public void A_name_has_up_to_MaxNameBytes_in_UTF_8(string character, int count, bool isAccepted)
    {
        var name = string.Concat(Enumerable.Repeat(character, count));

        if (isAccepted)
        {
            var frame = Some.Frame(Some.Batch(OutputHandle.Named(name), Some.Producer(), 1, "x"));
            using var received = FrameReader.Read(frame);
            Assert.Equal(name, received.Batches.Span[0].Handle.Name);
        }
        else
        {
            var exception = Assert.Throws<ArgumentException>(() => OutputHandle.Named(name));
            Assert.Contains($"{nameof(OutputHandle.MaxNameBytes)} (65535)", exception.Message, StringComparison.Ordinal);
        }
    }

    [Theory]
    [InlineData(0, 1L, true)]
    [InlineData(-1, 1L, false)]
    [InlineData(OutputHandle.MaxNode, OutputHandle.MaxSequence, true)]
    [InlineData(OutputHandle.MaxNode + 1, 1L, false)]
    [InlineData(0, 0L, false)]
    [InlineData(0, OutputHandle.MaxSequence + 1, false)]
    public void A_connection_has_a_node_and_a_number_within_their_limits(int node, long sequence, bool isAccepted)
    {
        if (!isAccepted)
        {
            Assert.Throws<ArgumentOutOfRangeException>(() => OutputHandle.Connection(node, sequence));
            return;
        }

        using var received = FrameReader.Read(Some.Frame(Some.Batch(OutputHandle.Connection(node, sequence), Some.Producer(), 1, "x")));
        Assert.Equal((node, $"{node}:{sequence}"), (received.Batches.Span[0].Handle.Node, received.Batches.Span[0].Handle.ToString()));
    }

    [Theory]
    [InlineData(0, false)]
    [InlineData(1, true)]
    [InlineData(OutputRoute.MaxPartitions, true)]
    [InlineData(OutputRoute.MaxPartitions + 1, false)]
    public void A_route_has_from_one_to_MaxPartitions(int partitions, bool isAccepted)
    {
        if (isAccepted)
            Assert.Equal(partitions, new OutputRoute("broker", _arrived, partitions).Partitions);
        else
            Assert.Throws<ArgumentOutOfRangeException>(() => new OutputRoute("broker", _arrived, partitions));
    }

    [Fact]
    public async Task A_batch_whose_headers_are_larger_than_a_number_can_say_is_several()
    {
        const int messages = 12_000;
        var header = new MessageHeader { Key = new string('x', MessageHeader.MaxTextBytes) };
        var buffer = Buffer(new OutputBufferOptions { MaxBufferedBytes = 1L << 40, MaxBatchMessages = 1_000_000 });
        Assert.True(messages * (long)header.EncodedBytes > int.MaxValue);

        await using (buffer.BeginBufferingScope(_first))
        {
            for (var message = 0; message < messages; message++)
                buffer.Write(_first, "x"u8, header);
            Assert.True(buffer.GetStatistics().BufferedBytes >= messages * (long)header.EncodedBytes);
        }

        Assert.Equal((messages, 0L), (_arrived.Messages.Count, buffer.GetStatistics().BufferedBytes));
    }

    [Fact]
    public void A_scopes_own_limit_is_above_zero_and_at_most_a_day()
    {
        var buffer = Buffer(new OutputBufferOptions());

        buffer.BeginBufferingScope(_first, TimeSpan.FromTicks(1)).Dispose();
        buffer.BeginBufferingScope(_first, TimeSpan.FromDays(1)).Dispose();

        Assert.Throws<ArgumentOutOfRangeException>(() => buffer.BeginBufferingScope(_first, TimeSpan.Zero));
        Assert.Throws<ArgumentOutOfRangeException>(() => buffer.BeginBufferingScope(_first, TimeSpan.FromDays(1) + TimeSpan.FromTicks(1)));
    }

    private static string Returns(Action write)
    {
        write();
        return "returns";
    }

    private static string Outcome(Func<string> write)
    {
        try
        {
            return write();
        }
        catch (OutputOverflowException overflow)
        {
            Assert.Contains(overflow.LimitName, overflow.Message, StringComparison.Ordinal);
            Assert.Contains($"{overflow.LimitBytes}", overflow.Message, StringComparison.Ordinal);
            return $"throws {overflow.LimitName}";
        }
    }

    private OutputBuffer Buffer(OutputBufferOptions options) => _buffer = new OutputBuffer(_arrived, options);

    private sealed class SmallSends(CollectingTransport next) : IBatchTransport
    {
        public int MaxSendBytes { get; init; }

        public bool SendsWithoutBlocking => true;

        public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => next.SendAsync(batches, cancellationToken);
    }
}
