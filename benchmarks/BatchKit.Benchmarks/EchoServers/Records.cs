using System.Buffers.Binary;
using BatchKit.Benchmarks.Configuration;

namespace BatchKit.Benchmarks.EchoServers;

/// <summary>The records of the playhouse: 1 KB unless <c>run</c> was told otherwise, of which the first four bytes tell how long the rest is.</summary>
internal static class Records
{
    public const int DefaultBytes = 1024;

    public const int PrefixBytes = sizeof(int);

    public static int Bytes { get; } = RunSettings.Size ?? DefaultBytes;

    /// <summary>Where the first record ends, its prefix included.</summary>
    /// <returns>Zero while it is not there whole.</returns>
    public static int EndOfFirst(ReadOnlySpan<byte> bytes)
    {
        if (!BinaryPrimitives.TryReadInt32BigEndian(bytes, out var length))
            return 0;
        var end = PrefixBytes + length;
        return end <= bytes.Length ? end : 0;
    }
}
