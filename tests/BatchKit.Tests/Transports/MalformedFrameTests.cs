using System.Diagnostics;
using BatchKit.Testing;
using BatchKit.Transports;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Tests.Transports;

public sealed class MalformedFrameTests(ITestOutputHelper output)
{
    private const int MaxFrameBytes = 8 * 1024;

    // An exception with its text and its trace.
    private const int ExceptionBytes = 8 * 1024;

    private readonly FrameLimits _limits = new() { MaxFrameBytes = MaxFrameBytes, MaxDecodedBytes = 64 * 1024 };
    private readonly FrameBatches _batches = new(isReused: true);
    private readonly HandleNames _names = new();
    private readonly ParserInputs _inputs = new();

    [Fact]
    [Trait("Lane", "slow: many random inputs")]
    public void Broken_frames_are_refused_without_a_crash_or_more_memory_than_declared()
    {
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var random = new Random(seed);
        var frames = Frames(count: 200, seed);
        var mutator = new FrameMutator(random, MaxFrameBytes);
        IsRefused(frames[0].AsMemory(1));

        var refused = 0;
        var mostBytes = 0L;
        for (var input = 0; input < ParserInputs.Count; input++)
        {
            var frame = mutator.Mutate(frames[random.Next(frames.Length)]);
            _inputs.Begin();
            var before = GC.GetAllocatedBytesForCurrentThread();
            refused += IsRefused(frame) ? 1 : 0;
            mostBytes = Math.Max(mostBytes, GC.GetAllocatedBytesForCurrentThread() - before);
            _inputs.End(input, seed);
        }

        output.WriteLine($"{refused} were refused; the rest changed nothing but content. The most allocated for one: {mostBytes} bytes. {_inputs}");
        Assert.InRange(mostBytes, 1, _limits.MaxDecodedBytes + ExceptionBytes);
        Assert.InRange(refused, ParserInputs.Count / 2, ParserInputs.Count);
        Assert.All(frames, frame => Assert.False(IsRefused(frame)));
    }

    [Theory]
    [InlineData("plain messages", "00", "05 01 01 01 41")]
    [InlineData("prompts", "02", "05 01 01 01 01 00 01 41")]
    [InlineData("keys", "02", "05 01 01 01 01 00 08 01 61 41")]
    [InlineData("excluded connections", "02", "05 01 01 01 01 00 04 01 06 41")]
    [InlineData("properties", "02", "05 01 01 01 01 00 20 01 00 01 61 01 62 41")]
    [InlineData("names", "01", "01 61 01 01 01 41")]
    public void Many_small_batches_take_no_more_memory_than_declared(string what, string flags, string rest)
    {
        var limits = new FrameLimits { MaxDecodedBytes = 1024 * 1024 };
        var batches = Enumerable.Range(1, 10_000).SelectMany(number => (byte[])[.. Hex(flags), .. Varint(number), .. Hex(rest)]);
        byte[] frame = [.. "BKF"u8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, .. Varint(10_000), .. batches];
        Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame, limits));

        var before = GC.GetAllocatedBytesForCurrentThread();
        var refusal = Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame, limits));
        var bytes = GC.GetAllocatedBytesForCurrentThread() - before;

        Assert.Contains(nameof(FrameLimits.MaxDecodedBytes), refusal.Message, StringComparison.Ordinal);
        Assert.True(bytes <= limits.MaxDecodedBytes + ExceptionBytes, $"Batches of {what} take {bytes} bytes.");
    }

    [Theory]
    [InlineData("FF FF FF FF 0F", "01")]
    [InlineData("01", "00 02 05 FF FF FF FF 07 00")]
    [InlineData("01", "00 02 05 01 FF FF FF FF 07 00")]
    [InlineData("01", "00 02 05 02 01 01 FF FF FF FF FF FF FF FF 7F 00")]
    [InlineData("01", "00 02 05 02 01 81 80 80 80 80 80 80 80 80 01 00 00")]
    [InlineData("01", "01 02 FF FF 03 41")]
    [InlineData("01", "02 02 05 01 01 01 FF FF FF FF 0F 41")]
    [InlineData("01", "02 02 05 01 01 01 01 00 04 FF FF FF FF 07 41")]
    [InlineData("01", "02 02 05 01 01 01 01 00 20 FF FF FF FF 07 41")]
    [InlineData("01", "02 02 05 01 01 01 01 00 10 00 FF FF FF FF 07 41")]
    [InlineData("01", "02 02 05 01 01 01 01 00 20 FF FF 03 00 41")]
    public void A_length_that_the_frame_cannot_hold_is_refused_before_anything_is_allocated_for_it(string batches, string batch)
    {
        byte[] frame = [.. "BKF"u8, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, .. Hex(batches), .. Hex(batch)];
        Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame));

        var before = GC.GetAllocatedBytesForCurrentThread();
        Assert.Throws<FrameFormatException>(() => FrameReader.Read(frame));

        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, ExceptionBytes);
    }

    [Theory]
    [InlineData("a name that is not UTF-8", "01 01 02 C3 28 01 01 01 41")]
    [InlineData("a named handle without a name", "01 01 00 01 01 01 41")]
    [InlineData("a connection of number zero", "00 01 00 01 01 01 41")]
    [InlineData("a batch of number zero", "00 00 05 01 01 01 41")]
    [InlineData("a batch without messages", "00 01 05 00 01 41 41")]
    [InlineData("lengths that do not add up", "00 01 05 01 02 01 41 41")]
    [InlineData("an unknown flag of a batch", "04 01 05 01 01 01 41")]
    [InlineData("an unknown flag of a header", "02 01 05 01 01 01 01 00 40 41")]
    [InlineData("an unknown kind", "02 01 05 01 01 01 01 00 03 41")]
    [InlineData("more headers than messages", "02 01 05 01 01 01 02 00 01 00 01 41")]
    [InlineData("a header behind the last message", "02 01 05 02 01 01 00 01 02 01 41")]
    public void What_a_frame_may_not_say_is_refused_in_each_version(string what, string batch)
    {
        foreach (var version in (byte[])[1, 2])
            Assert.True(Refusal(version, batch) is FrameFormatException, $"{what} in version {version}");
    }

    [Theory]
    [InlineData("a number of no shared text", "02 01 05 01 01 01 01 00 10 01 41")]
    [InlineData("a number above the shared texts", "02 01 05 01 01 01 01 00 50 00 01 61 02 41")]
    [InlineData("a number of no shared header", "02 01 05 01 01 01 01 00 07 41")]
    [InlineData("a shared header without a number", "02 01 05 02 01 01 00 02 00 10 00 01 61 00 03 41")]
    [InlineData("a number above the shared headers", "02 01 05 02 01 01 00 02 00 10 00 01 61 00 0B 41")]
    [InlineData("a number of a header that only says a kind", "02 01 05 02 01 01 00 02 00 01 00 07 41")]
    [InlineData("a header that is repeated no times", "02 01 05 02 01 01 00 02 00 81 00 41")]
    [InlineData("a header that is repeated behind the last message", "02 01 05 02 01 01 00 02 00 81 02 41")]
    [InlineData("a header that is repeated more often than there are headers", "02 01 05 03 01 01 00 00 02 00 81 02 41")]
    [InlineData("a header that is repeated very often", "02 01 05 02 01 01 00 02 00 81 FF FF FF FF 0F 41")]
    public void What_version_2_may_not_say_is_refused(string what, string batch) => Assert.True(Refusal(2, batch) is FrameFormatException, what);

    [Theory]
    [InlineData("a repeated header", "02 01 05 02 01 01 00 02 00 81 01 41")]
    [InlineData("a shared header", "02 01 05 02 01 01 00 02 00 10 00 01 61 00 07 41")]
    [InlineData("a shared text", "02 01 05 02 01 01 00 02 00 10 00 01 61 00 11 01 41")]
    [InlineData("a type", "02 01 05 01 01 01 01 00 40 00 01 61 41")]
    public void What_is_new_in_version_2_is_refused_in_version_1(string what, string batch)
    {
        Assert.True(Refusal(2, batch) is null, what);
        Assert.True(Refusal(1, batch) is FrameFormatException, what);
    }

    private static Exception? Refusal(byte version, string batch)
    {
        byte[] frame = [.. "BKF"u8, version, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, .. Hex(batch)];
        return Record.Exception(() => FrameReader.Read(frame));
    }

    private static byte[] Varint(int number) => [(byte)(number | 0x80), (byte)((number >> 7) | 0x80), (byte)(number >> 14)];

    private static byte[] Hex(string text) => Convert.FromHexString(text.Replace(" ", "", StringComparison.Ordinal));

    private static byte[][] Frames(int count, int seed) =>
    [
        .. SomeBatches.OfOneProducer.Sample(count * 4, new Rnd((ulong)seed), size: 8).Select(batches => Some.Frame(batches)).Where(frame => frame.Length < MaxFrameBytes / 2).Take(count),
        Some.Frame(Some.Batch(OutputHandle.Named("room"), new ProducerId(1, seed, 0), 1, Some.Lines(300))),
        Traced(Some.Batch(OutputHandle.Named("room"), new ProducerId(1, seed, 0), 1, Some.Lines(3))),
    ];

    private static byte[] Traced(MessageBatch batch)
    {
        using var frame = PooledFrame.Encode([batch], signer: null, new ActivityContext(ActivityTraceId.CreateRandom(), ActivitySpanId.CreateRandom(), ActivityTraceFlags.Recorded));
        return frame.Bytes.ToArray();
    }

    // Its assertions allocate nothing while they hold, because its callers measure it: Assert.InRange takes 168 bytes.
    private bool IsRefused(ReadOnlyMemory<byte> frame)
    {
        try
        {
            FrameReader.Read(frame, _limits, _batches, _names);
        }
        catch (FrameFormatException)
        {
            Assert.True(_batches.Batches.IsEmpty, "A refused frame leaves no batches.");
            return true;
        }

        foreach (var batch in _batches.Batches.Span)
        {
            foreach (var message in batch)
                Assert.True(message.Payload.Length <= frame.Length, "A message is longer than its frame.");
        }

        _batches.Release();
        return false;
    }
}
