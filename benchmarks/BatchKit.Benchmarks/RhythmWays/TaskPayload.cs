using System.Buffers.Binary;
using BatchKit.Benchmarks.Configuration;

namespace BatchKit.Benchmarks.RhythmWays;

/// <summary>A task's bytes: its number, then noise.</summary>
internal static class TaskPayload
{
    public const int DefaultBytes = 100;

    private const int Seed = 1;

    public static int Bytes { get; } = RunSettings.Size ?? DefaultBytes;

    private static readonly byte[] Noise = MakeNoise();

    public static byte[] Make() => [.. Noise];

    public static void Fill(Span<byte> payload) => Noise.CopyTo(payload);

    public static void Number(Span<byte> payload, int number) => BinaryPrimitives.WriteInt32BigEndian(payload, number);

    public static int NumberOf(ReadOnlySpan<byte> payload) =>
        payload.Length == Bytes ? BinaryPrimitives.ReadInt32BigEndian(payload) : throw new InvalidOperationException($"A task came with {payload.Length} bytes.");

    /// <summary>A number at the payload's end: when it was due.</summary>
    public static void Stamp(Span<byte> payload, long timestamp) => BinaryPrimitives.WriteInt64BigEndian(payload[^sizeof(long)..], timestamp);

    public static long StampOf(ReadOnlySpan<byte> payload) => BinaryPrimitives.ReadInt64BigEndian(payload[^sizeof(long)..]);

    private static byte[] MakeNoise()
    {
        var noise = new byte[Bytes];
        new Random(Seed).NextBytes(noise);
        return noise;
    }
}
