using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Tests.Transports;

public sealed class FrameTests
{
    private static readonly ProducerId Producer = new(Node: 7, Epoch: -42, Partition: 3);

    [Fact]
    public void A_frame_gives_back_its_batches()
    {
        var connection = Some.Connection(node: 9);
        var group = OutputHandle.Named("room/Garten €");
        var frame = Some.Frame(
            Some.Batch(connection, Producer, number: 5, "one", "", "three"),
            Some.Batch(group, Producer, number: long.MaxValue, new string('x', 100_000)));

        using var received = FrameReader.Read(frame);

        Assert.Equal(Producer, received.Producer);
        var batches = received.Batches.ToArray();
        Assert.Equal([connection, group], batches.Select(batch => batch.Handle));
        Assert.Equal([5, long.MaxValue], batches.Select(batch => batch.Number));
        Assert.All(batches, batch => Assert.Equal(Producer, batch.Producer));
        Assert.Equal(["one", "", "three"], Texts(batches[0]));
        Assert.Equal([new string('x', 100_000)], Texts(batches[1]));
        Assert.False(batches[0].HasHeaders);
    }

    [Fact]
    public void Headers_come_back_with_everything_that_they_say()
    {
        var header = Some.FullHeader();
        var batch = MessageBatch.Create(Some.Connection(), Producer, 1,
            Some.Message("plain"), Some.Message("full", header), Some.Message("said plain", new MessageHeader()), Some.Message("> ", MessageHeader.Prompt));

        using var received = FrameReader.Read(Some.Frame(batch));

        var headers = received.Batches.Span[0].Headers.ToArray();
        Assert.Null(headers[0]);
        Assert.Equivalent(header, headers[1], strict: true);
        Assert.Equivalent(new MessageHeader(), headers[2], strict: true);
        Assert.Same(MessageHeader.Prompt, headers[3]);
    }

    [Fact]
    public void A_payload_is_the_frames_own_memory()
    {
        var frame = Some.Frame(Some.Batch(Some.Connection(), Producer, 1, "abc"));

        using var received = FrameReader.Read(frame);

        frame.AsSpan()[^1] = (byte)'X';
        Assert.Equal(["abX"], Texts(received.Batches.Span[0]));
    }

    [Fact]
    public void A_frame_is_never_larger_than_measured()
    {
        MessageBatch[] batches =
        [
            Some.Batch(Some.Connection(node: OutputHandle.MaxNode), Producer, long.MaxValue - 1, Some.Lines(300)),
            MessageBatch.Create(Some.Group(), Producer, long.MaxValue, Some.Message("x", Some.FullHeader())),
        ];

        var frame = Some.Frame(batches);

        Assert.InRange(frame.Length, 1, FrameWriter.Measure(batches));
    }

    [Fact]
    public void A_header_that_comes_again_and_repeats_takes_no_more_than_measured()
    {
        var header = Typed("Said");
        var batch = MessageBatch.Create(Some.Connection(), Producer, 1,
            [Some.Message("", header), Some.Message(""), .. Enumerable.Repeat(Some.Message("", header), 2000)]);

        var frame = Some.Frame(batch);

        Assert.InRange(frame.Length, 6000, FrameWriter.Measure([batch]));
    }

    [Fact]
    public void A_thousand_short_messages_cost_one_byte_each_beside_their_payload()
    {
        var frame = Some.Frame(Some.Batch(Some.Connection(), Producer, 1, [.. Enumerable.Repeat("hello world!", 1000)]));

        Assert.InRange(frame.Length, 13_000, 13_040);
    }

    [Fact]
    public void A_thousand_messages_of_one_type_carry_its_name_once()
    {
        var frame = Some.Frame(MessageBatch.Create(OutputHandle.Connection(5), new ProducerId(1, 2, 3), 1,
            [.. Enumerable.Range(0, 1000).Select(_ => Some.Message("8 bytes.", new MessageHeader { Type = "Said", ContentType = "application/json" }))]));

        // 9,019 for plain messages with a count of headers and a place; the flags, both texts and the count of repeats are the rest.
        Assert.Equal(9025 + 1 + 18 + 6 + 2, frame.Length);
    }

    [Fact]
    public void A_thousand_messages_of_several_types_cost_two_bytes_each_beside_the_plain_frame()
    {
        BatchMessage[] messages = [.. Enumerable.Range(0, 1000).Select(message => Some.Message("8 bytes.", Typed($"type {message % 50}")))];

        var frame = Some.Frame(MessageBatch.Create(Some.Connection(), Producer, 1, messages));

        Assert.InRange(frame.Length, 11_000, 12_000);
    }

    [Fact]
    public void More_texts_and_headers_than_have_numbers_come_back_all_the_same()
    {
        MessageHeader[] headers =
        [
            .. Enumerable.Range(0, 400).Select(message => Typed($"type {message % 200}")),
            .. Enumerable.Range(0, 10).Select(message => Typed(new string('T', 250 + message))),
            .. Enumerable.Range(0, 10).Select(message => Typed(new string('T', 250 + message))),
        ];

        using var received = FrameReader.Read(Some.Frame(MessageBatch.Create(Some.Connection(), Producer, 1, Array.ConvertAll(headers, header => Some.Message("x", header)))));

        Assert.Equal(headers.Select(header => header.Type), received.Batches.Span[0].Headers.ToArray().Select(header => header!.Type));
    }

    [Fact]
    public void Shared_texts_and_headers_are_shared_objects_over_all_batches_of_a_frame()
    {
        var withKey = new MessageHeader { Type = "Said", Key = "k" };
        var frame = Some.Frame(
            MessageBatch.Create(Some.Connection(), Producer, 1, Some.Message("a", Typed("Said")), Some.Message("b", withKey), Some.Message("c", Typed("Said"))),
            MessageBatch.Create(Some.Connection(), Producer, 2, Some.Message("d", Typed("Said")), Some.Message("e", Typed("Said"))));

        using var received = FrameReader.Read(frame);

        var first = received.Batches.Span[0].Headers.ToArray();
        var second = received.Batches.Span[1].Headers.ToArray();
        Assert.All([first[2], second[0], second[1]], header => Assert.Same(first[0], header));
        Assert.Same(first[0]!.Type, first[1]!.Type);
    }

    [Fact]
    public void Each_header_object_that_is_read_counts_against_the_limit_and_a_shared_one_counts_once()
    {
        var limits = new FrameLimits { MaxDecodedBytes = 50_000 };
        var shared = Some.Frame(MessageBatch.Create(Some.Connection(), Producer, 1, [.. Enumerable.Range(0, 1000).Select(_ => Some.Message("x", Typed("Said")))]));
        var own = Some.Frame(MessageBatch.Create(Some.Connection(), Producer, 1,
            [.. Enumerable.Range(0, 1000).Select(message => Some.Message("x", new MessageHeader { ExcludedConnections = [OutputHandle.Connection(1 + message)] }))]));

        FrameReader.Read(shared, limits).Dispose();
        var refusal = Assert.Throws<FrameFormatException>(() => FrameReader.Read(own, limits));

        Assert.Contains(nameof(FrameLimits.MaxDecodedBytes), refusal.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void A_frame_of_version_1_is_read()
    {
        byte[] frame = [.. "BKF"u8, 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, .. Convert.FromHexString("020105020101000101380 16B026162 01016E 017641".Replace(" ", "", StringComparison.Ordinal))];

        using var received = FrameReader.Read(frame);

        var batch = received.Batches.Span[0];
        Assert.Equal((new ProducerId(7, 0, 3), 1L, OutputHandle.Connection(5)), (received.Producer, batch.Number, batch.Handle));
        Assert.Equal(["A", ""], Texts(batch));
        Assert.Null(batch.Headers[0]);
        Assert.Equivalent(new MessageHeader { Key = "k", ContentType = "ab", Properties = [new("n", "v")] }, batch.Headers[1], strict: true);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(3)]
    [InlineData(255)]
    public void An_unknown_version_is_refused_by_name(byte version)
    {
        var frame = Some.Frame(Some.Batch(Some.Connection(), Producer, 1, "abc"));
        frame[3] = version;

        var exception = Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame));

        Assert.Equal($"The frame has version {version}; this reader knows versions 1 to 2.", exception.Message);
    }

    [Fact]
    public void Every_beginning_of_a_frame_is_refused()
    {
        var frame = Some.Frame(MessageBatch.Create(Some.Group(), Producer, 1, Some.Message("one", Some.FullHeader()), Some.Message("two")));

        for (var length = 0; length < frame.Length; length++)
            Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame.AsMemory(0, length)));
    }

    [Fact]
    public void Bytes_behind_the_last_batch_are_refused()
    {
        byte[] frame = [.. Some.Frame(Some.Batch(Some.Connection(), Producer, 1, "abc")), 0];

        Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame));
    }

    [Fact]
    public void Each_limit_is_named_when_a_frame_passes_it()
    {
        var frame = Some.Frame(
            Some.Batch(Some.Connection(), Producer, 1, Some.Lines(200)),
            MessageBatch.Create(Some.Connection(), Producer, 2, Some.Message("x", new MessageHeader { Key = new string('k', 2000) })));

        Assert.Contains(nameof(FrameLimits.MaxFrameBytes), RefusedBy(new FrameLimits { MaxFrameBytes = 500 }), StringComparison.Ordinal);
        Assert.Contains(nameof(FrameLimits.MaxBatches), RefusedBy(new FrameLimits { MaxBatches = 1 }), StringComparison.Ordinal);
        Assert.Contains(nameof(FrameLimits.MaxMessages), RefusedBy(new FrameLimits { MaxMessages = 200 }), StringComparison.Ordinal);
        Assert.Contains(nameof(FrameLimits.MaxDecodedBytes), RefusedBy(new FrameLimits { MaxDecodedBytes = 4000 }), StringComparison.Ordinal);

        string RefusedBy(FrameLimits limits) => Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame, limits)).Message;
    }

    [Fact]
    public void A_frame_takes_batches_of_one_producer_with_rising_numbers_only()
    {
        var handle = Some.Connection();
        var first = Some.Batch(handle, Producer, 2, "first");

        Assert.Throws<ArgumentException>(() => Some.Frame());
        Assert.Throws<ArgumentException>(() => Some.Frame(first, Some.Batch(handle, Producer, 2, "same number")));
        Assert.Throws<ArgumentException>(() => Some.Frame(first, Some.Batch(handle, Producer with { Partition = 4 }, 3, "another producer")));
        Assert.Throws<ArgumentException>(() => Some.Frame(Some.Batch(handle, Producer, 0, "no number")));
        Assert.Throws<ArgumentException>(() => Some.Frame(Some.Batch(default, Producer, 1, "no handle")));
    }

    [Fact]
    public void A_disposed_frame_has_no_batches_and_may_be_disposed_again()
    {
        var received = FrameReader.Read(Some.Frame(Some.Batch(Some.Connection(), Producer, 1, "abc")));

        received.Dispose();
        received.Dispose();

        Assert.Equal(0, received.Batches.Length);
    }

    [Fact]
    public void Reading_again_into_the_same_batches_allocates_nothing()
    {
        var prompt = MessageBatch.Create(Some.Group(), Producer, 2, Some.Message("text"), Some.Message("> ", MessageHeader.Prompt));
        ReadOnlyMemory<byte> frame = Some.Frame(Some.Batch(Some.Connection(), Producer, 1, Some.Lines(1000)), prompt);
        var received = new FrameBatches(isReused: true);
        var names = new HandleNames();
        var limits = new FrameLimits();

        Assert.Equal(0, Allocations.Least(ReadOften));

        void ReadOften()
        {
            for (var round = 0; round < 1000; round++)
            {
                FrameReader.Read(frame, limits, received, names);
                received.Release();
            }
        }
    }

    private static MessageHeader Typed(string type) => new() { Type = type, ContentType = "application/json" };

    private static string[] Texts(MessageBatch batch) =>
        [.. Enumerable.Range(0, batch.Count).Select(index => System.Text.Encoding.UTF8.GetString(batch[index].Payload.Span))];
}
