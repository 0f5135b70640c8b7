using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

/// <summary>One below, at and above each limit of a frame, of its headers and of a receiver.</summary>
public sealed class FrameLimitTests
{
    private readonly ProducerId _producer = Some.Producer();
    private readonly CollectingTransport _arrived = new();

    public static TheoryData<string, Func<int, MessageHeader>> Texts => new()
    {
        { "Key", length => new MessageHeader { Key = new string('x', length) } },
        { "ContentType", length => new MessageHeader { ContentType = new string('x', length) } },
        { "Type", length => new MessageHeader { Type = new string('x', length) } },
        { "ReplyTo", length => new MessageHeader { ReplyTo = new string('x', length) } },
        { "CorrelationData", length => new MessageHeader { CorrelationData = [.. new byte[length]] } },
        { "property name", length => new MessageHeader { Properties = [new(new string('x', length), "")] } },
        { "property value", length => new MessageHeader { Properties = [new("", new string('x', length))] } },
    };

    [Theory]
    [MemberData(nameof(Texts))]
    public void Each_text_of_a_header_has_up_to_MaxTextBytes(string part, Func<int, MessageHeader> header)
    {
        foreach (var length in (int[])[MessageHeader.MaxTextBytes - 1, MessageHeader.MaxTextBytes])
        {
            using var received = FrameReader.Read(Some.Frame(MessageBatch.Create(Some.Connection(), _producer, 1, Some.Message("x", header(length)))));
            FramePropertyTests.AssertSame(header(length), received.Batches.Span[0].Headers[0]);
        }

        var exception = Assert.Throws<ArgumentException>(() => header(MessageHeader.MaxTextBytes + 1).EncodedBytes);
        Assert.Contains($"A header's {part} has 65536 ", exception.Message, StringComparison.Ordinal);
        Assert.Contains($"{nameof(MessageHeader.MaxTextBytes)} (65535)", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_header_that_is_larger_than_a_number_can_say_is_refused_at_the_write()
    {
        var longest = new string('x', MessageHeader.MaxTextBytes);
        var header = new MessageHeader { Properties = [.. Enumerable.Repeat(new KeyValuePair<string, string>(longest, longest), 6000)] };

        Assert.Throws<OutputOverflowException>(() => new OutputBuffer(_arrived).Write(Some.Connection(), "x"u8, header));
    }

    [Theory]
    [InlineData(126)]
    [InlineData(127)]
    [InlineData(128)]
    [InlineData(16_383)]
    [InlineData(16_384)]
    [InlineData(2_097_151)]
    [InlineData(2_097_152)]
    public void Sizes_where_a_number_takes_another_byte_cross_in_a_frame(int size)
    {
        var texts = Enumerable.Repeat("", Math.Min(size, 20_000)).ToArray();
        var handle = Some.Connection();

        using var received = FrameReader.Read(Some.Frame(
            Some.Batch(handle, _producer, size, new string('x', size)),
            Some.Batch(handle, _producer, 2L * size, texts),
            Some.Batch(OutputHandle.Named(new string('n', Math.Min(size, OutputHandle.MaxNameBytes))), _producer, long.MaxValue - 1, "x")));

        var batches = received.Batches.Span;
        Assert.Equal((size, texts.Length, Math.Min(size, OutputHandle.MaxNameBytes)), (batches[0][0].Payload.Length, batches[1].Count, batches[2].Handle.Name!.Length));
        Assert.Equal((size, 2L * size, long.MaxValue - 1), (batches[0].Number, batches[1].Number, batches[2].Number));
    }

    [Theory]
    [InlineData(FrameFormat.MaxSharedHeaders)]
    [InlineData(FrameFormat.MaxSharedTexts)]
    public void Headers_and_texts_that_are_shared_in_a_frame_cross_beyond_their_limits_too(int limit)
    {
        foreach (var count in (int[])[limit - 1, limit, limit + 1, (2 * limit) + 1])
        {
            var headers = Enumerable.Range(0, count).Select(number => new MessageHeader { Type = $"type {number}", ContentType = $"content {number}", Properties = [new($"name {number}", "value")] }).ToArray();
            var messages = headers.Concat(headers).Concat(headers.Reverse()).Select(header => Some.Message("x", header)).ToArray();

            using var received = FrameReader.Read(Some.Frame(MessageBatch.Create(Some.Connection(), _producer, 1, messages)));

            Assert.Equal(messages.Select(Text), received.Batches.Span[0].Headers.ToArray().Select(header => Text(Some.Message("x", header))));
        }

        static string Text(BatchMessage message) => $"{message.Header!.Type}, {message.Header.ContentType}, {message.Header.Properties[0].Key}";
    }

    [Theory]
    [InlineData(FrameFormat.MaxSharedTextLength - 1)]
    [InlineData(FrameFormat.MaxSharedTextLength)]
    [InlineData(FrameFormat.MaxSharedTextLength + 1)]
    public void A_text_that_is_too_long_to_be_shared_crosses_too(int length)
    {
        var header = new MessageHeader { Type = new string('x', length), Key = "first" };
        var second = new MessageHeader { Type = new string('x', length), Key = "second" };

        using var received = FrameReader.Read(Some.Frame(MessageBatch.Create(Some.Connection(), _producer, 1, Some.Message("x", header), Some.Message("y", second))));

        Assert.Equivalent(new[] { header, second }, received.Batches.Span[0].Headers.ToArray(), strict: true);
    }

    [Fact]
    public void A_frame_is_read_at_each_limit_and_refused_by_name_one_above_it()
    {
        var frame = Some.Frame(Some.Batch(Some.Group(), _producer, 1, Some.Lines(30)), Some.Batch(Some.Connection(), _producer, 2, Some.Lines(20)));
        var decoded = Enumerable.Range(0, 100_000).First(bytes => Reads(new FrameLimits { MaxDecodedBytes = bytes }));

        Assert.All(
            (FrameLimits[])[new() { MaxFrameBytes = frame.Length }, new() { MaxBatches = 2 }, new() { MaxMessages = 50 }, new() { MaxDecodedBytes = decoded }],
            limits => Assert.True(Reads(limits)));
        Assert.Contains($"{nameof(FrameLimits.MaxFrameBytes)} ({frame.Length - 1})", RefusedBy(new() { MaxFrameBytes = frame.Length - 1 }), StringComparison.Ordinal);
        Assert.Contains($"{nameof(FrameLimits.MaxBatches)} (1)", RefusedBy(new() { MaxBatches = 1 }), StringComparison.Ordinal);
        Assert.Contains(nameof(FrameLimits.MaxMessages), RefusedBy(new() { MaxMessages = 49 }), StringComparison.Ordinal);
        Assert.Contains($"{nameof(FrameLimits.MaxDecodedBytes)} ({decoded - 1})", RefusedBy(new() { MaxDecodedBytes = decoded - 1 }), StringComparison.Ordinal);

        bool Reads(FrameLimits limits) => Record.Exception(() => FrameReader.Read(frame, limits).Dispose()) is null;

        string RefusedBy(FrameLimits limits) => Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame, limits)).Message;
    }

    [Theory]
    [InlineData(-1, true)]
    [InlineData(0, true)]
    [InlineData(1, false)]
    public async Task A_frame_of_a_transport_has_up_to_MaxFrameBytes(int above, bool isAccepted)
    {
        var frames = new List<int>();
        using var transport = new FrameTransport((frame, _) => Add(frame), new FrameTransportOptions { BusName = "NATS", MaxFrameBytes = 4096 });
        var handle = Some.Connection();
        var overhead = Some.Frame(Some.Batch(handle, _producer, 1, new string('x', 4000))).Length - 4000;
        MessageBatch[] batches = [Some.Batch(handle, _producer, 1, new string('x', 4096 - overhead + above))];

        var exception = await Record.ExceptionAsync(() => transport.SendAsync(batches, CancellationToken.None).AsTask());

        Assert.Equal(isAccepted ? [4096 + above] : [], frames);
        if (!isAccepted)
            Assert.Contains("MaxFrameBytes (4096)", Assert.IsType<BatchSendException>(exception).Message, StringComparison.Ordinal);

        ValueTask Add(OutgoingFrame frame)
        {
            frames.Add(frame.Bytes.Length);
            return ValueTask.CompletedTask;
        }
    }

    [Theory]
    [InlineData(FrameSigner.MinKeyBytes - 1, false)]
    [InlineData(FrameSigner.MinKeyBytes, true)]
    [InlineData(FrameSigner.MinKeyBytes + 1, true)]
    public void A_key_has_at_least_MinKeyBytes(int bytes, bool isAccepted)
    {
        var options = new OutputBufferOptions { FrameKeys = { Some.RandomBytes(bytes) } };

        Assert.Equal(isAccepted, Record.Exception(() => new FrameSigner(Some.RandomBytes(bytes))) is null);
        Assert.Equal(isAccepted, new OutputBufferOptionsValidator().Validate(name: null, options).Succeeded);
    }

    [Theory]
    [InlineData(99_999, 0)]
    [InlineData(100_000, 0)]
    [InlineData(100_001, 1)]
    public async Task A_number_may_jump_by_MaxNumberJump(int jump, int rejected)
    {
        var receiver = new BatchReceiver(_arrived, new BatchReceiverOptions { MaxNumberJump = 100_000 });
        var handle = Some.Connection();
        await receiver.ReceiveAsync(Some.Frame(Some.Batch(handle, _producer, 7, "first")), CancellationToken.None);

        await receiver.ReceiveAsync(Some.Frame(Some.Batch(handle, _producer, 7 + jump, "second")), CancellationToken.None);

        Assert.Equal((rejected, 2 - rejected), (receiver.GetStatistics().RejectedFrames, _arrived.Messages.Count));
    }

    [Theory]
    [InlineData(SeenNumbers.MaxGap - 1, true)]
    [InlineData(SeenNumbers.MaxGap, true)]
    [InlineData(SeenNumbers.MaxGap + 1, false)]
    public void A_gap_of_up_to_MaxGap_marks_what_it_skips_as_seen(int gap, bool isSeen)
    {
        var seen = new SeenNumbers(_producer);
        seen.AddThrough(1);

        seen.AddThrough(1 + gap);

        Assert.Equal((true, isSeen, true, false), (seen.Contains(1), seen.Contains(gap), seen.Contains(1 + gap), seen.Contains(2 + gap)));
    }

    [Theory]
    [InlineData(2, 1)]
    [InlineData(3, 1)]
    [InlineData(4, 0)]
    public async Task As_many_producers_as_MaxProducers_are_remembered(int producers, int duplicates)
    {
        var receiver = new BatchReceiver(_arrived, new BatchReceiverOptions { MaxProducers = 3 });
        var handle = Some.Connection();
        var frames = Enumerable.Range(0, producers).Select(_ => Some.Frame(Some.Batch(handle, Some.Producer(), 1, "x"))).ToArray();
        foreach (var frame in frames)
            await receiver.ReceiveAsync(frame, CancellationToken.None);

        await receiver.ReceiveAsync(frames[0], CancellationToken.None);

        Assert.Equal(duplicates, receiver.GetStatistics().DuplicateBatches);
    }
}
