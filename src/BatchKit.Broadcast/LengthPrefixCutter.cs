using System.Buffers.Binary;

namespace BatchKit.Broadcast;

/// <summary>Cuts records that follow their length: four bytes, unsigned, big-endian, which do not count themselves. Zero makes an empty record.</summary>
public sealed class LengthPrefixCutter : IRecordCutter
{
    private LengthPrefixCutter()
    {
    }

    /// <summary>The only one.</summary>
    public static LengthPrefixCutter Shared { get; } = new();

    /// <inheritdoc/>
    /// <remarks>A length above the limit is refused as soon as it was read, before any memory is taken for it.</remarks>
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        (record, consumedBytes) = (default, 0);
        if (!BinaryPrimitives.TryReadUInt32BigEndian(bytes, out var length))
            return CutResult.Incomplete;
        if (length > maxRecordBytes)
            return CutResult.TooLong;
        var end = sizeof(uint) + (int)length;
        if (bytes.Length < end)
            return CutResult.Incomplete;
        record = sizeof(uint)..end;
        consumedBytes = end;
        return CutResult.Record;
    }
}
