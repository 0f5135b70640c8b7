using System.Buffers.Binary;
using BatchKit.Benchmarks.EchoServers;

namespace BatchKit.Benchmarks.EchoLoad;

/// <summary>What every connection sends, again and again: numbered records.</summary>
internal sealed class RecordPattern
{
    private const int Count = 64;
    private const int CheckedBytes = 16;

    private readonly byte[] _bytes = new byte[Count * Records.Bytes];

    public RecordPattern()
    {
        new Random(1).NextBytes(_bytes);
        for (var record = 0; record < Count; record++)
        {
            BinaryPrimitives.WriteInt32BigEndian(_bytes.AsSpan(record * Records.Bytes), Records.Bytes - Records.PrefixBytes);
            BinaryPrimitives.WriteInt32BigEndian(_bytes.AsSpan((record * Records.Bytes) + Records.PrefixBytes), record);
        }
    }

    /// <summary>What comes at a place in a connection's stream.</summary>
    public ReadOnlySpan<byte> From(long position, long maxBytes)
    {
        var start = (int)(position % _bytes.Length);
        return _bytes.AsSpan(start, (int)Math.Min(maxBytes, _bytes.Length - start));
    }

    /// <summary>Compares the beginning of each record that begins in what came back: its length, its number, some of the rest.</summary>
    public void Check(ReadOnlySpan<byte> bytes, long position)
    {
        var first = (int)((Records.Bytes - (position % Records.Bytes)) % Records.Bytes);
        for (var start = first; start + CheckedBytes <= bytes.Length; start += Records.Bytes)
        {
            if (!bytes.Slice(start, CheckedBytes).SequenceEqual(From(position + start, CheckedBytes)))
                throw new InvalidOperationException($"What came back at {position + start} is not what was sent.");
        }
    }
}
