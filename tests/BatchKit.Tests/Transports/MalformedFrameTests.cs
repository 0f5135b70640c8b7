using BatchKit.Testing;
using BatchKit.Transports;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Tests.Transports;

public sealed class MalformedFrameTests(ITestOutputHelper output)
{
    private const int Inputs = 1_000_000;
    private const int MaxFrameBytes = 8 * 1024;

    // An exception with its text and its trace.
    private const int ExceptionBytes = 8 * 1024;

    private readonly FrameLimits _limits = new() { MaxFrameBytes = MaxFrameBytes, MaxDecodedBytes = 64 * 1024 };
    private readonly FrameBatches _batches = new(isReused: true);
    private readonly HandleNames _names = new();

    [Fact]
    public void A_million_broken_frames_are_refused_without_a_crash_or_more_memory_than_declared()
    {
        var seed = int.TryParse(Environment.GetEnvironmentVariable("BATCHKIT_SEED"), out var given) ? given : Random.Shared.Next();
        output.WriteLine($"BATCHKIT_SEED={seed} repeats this run.");
        var random = new Random(seed);
        var frames = Frames(count: 200, seed);
        var mutator = new FrameMutator(random, MaxFrameBytes);
        IsRefused(frames[0].AsMemory(1));

        var refused = 0;
        var mostBytes = 0L;
        for (var input = 0; input < Inputs; input++)
        {
            var frame = mutator.Mutate(frames[random.Next(frames.Length)]);
            var before = GC.GetAllocatedBytesForCurrentThread();
            refused += IsRefused(frame) ? 1 : 0;
            mostBytes = Math.Max(mostBytes, GC.GetAllocatedBytesForCurrentThread() - before);
        }

        output.WriteLine($"{refused} of {Inputs} were refused; the rest changed nothing but content. The most allocated for one: {mostBytes} bytes.");
        Assert.InRange(mostBytes, 1, _limits.MaxDecodedBytes + ExceptionBytes);
        Assert.InRange(refused, Inputs / 2, Inputs);
        Assert.All(frames, frame => Assert.False(IsRefused(frame)));
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
    public void A_length_that_the_frame_cannot_hold_is_refused_before_anything_is_allocated_for_it(string batches, string batch)
    {
        byte[] frame = [.. "BKF"u8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, .. Hex(batches), .. Hex(batch)];
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
    public void What_a_frame_may_not_say_is_refused(string what, string batch)
    {
        byte[] frame = [.. "BKF"u8, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, .. Hex(batch)];

        var refusal = Record.Exception(() => FrameReader.Read(frame));

        Assert.True(refusal is FrameFormatException, $"{what}: {refusal?.GetType().Name ?? "read"}");
    }

    private static byte[] Hex(string text) => Convert.FromHexString(text.Replace(" ", "", StringComparison.Ordinal));

    private static byte[][] Frames(int count, int seed) =>
    [
        .. SomeBatches.OfOneProducer.Sample(count * 4, new Rnd((ulong)seed), size: 8).Select(batches => Some.Frame(batches)).Where(frame => frame.Length < MaxFrameBytes / 2).Take(count),
        Some.Frame(Some.Batch(OutputHandle.Named("room"), new ProducerId(1, seed, 0), 1, Some.Lines(300))),
    ];

    private bool IsRefused(ReadOnlyMemory<byte> frame)
    {
        try
        {
            FrameReader.Read(frame, _limits, _batches, _names);
        }
        catch (FrameFormatException)
        {
            Assert.Equal(0, _batches.Batches.Length);
            return true;
        }

        foreach (var batch in _batches.Batches.Span)
        {
            foreach (var message in batch)
                Assert.InRange(message.Payload.Length, 0, frame.Length);
        }

        _batches.Release();
        return false;
    }
}
