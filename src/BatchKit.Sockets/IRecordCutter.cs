using System.Buffers.Binary;

namespace BatchKit.Broadcast;

/// <summary>Splits a TCP client's bytes into records. It must be stateless and thread-safe: one cutter serves all connections.</summary>
/// <remarks>Delimiters, such as a length prefix, may take at most 256 bytes per record: a client that sends more without a record is disconnected.</remarks>
public interface IRecordCutter
{
    /// <summary>Looks for a record at the start of the bytes.</summary>
    /// <param name="bytes">The received bytes that are not split yet; never empty.</param>
    /// <param name="maxRecordBytes">The longest allowed record, without delimiters; <see cref="BroadcastOptions.MaxRecordBytes"/>.</param>
    /// <param name="record">Where the record lies in the bytes, when there is one.</param>
    /// <param name="consumedBytes">The bytes that the record takes with its delimiters; more than zero when there is a record.</param>
    CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes);
}

/// <summary>What an <see cref="IRecordCutter"/> found at the start of the bytes.</summary>
public enum CutResult
{
    /// <summary>No whole record yet.</summary>
    Incomplete = 0,

    /// <summary>A record.</summary>
    Record = 1,

    /// <summary>A record that is longer than allowed, or will be. The client is disconnected.</summary>
    TooLong = 2,

    /// <summary>Bytes that can't be a record. The client is disconnected.</summary>
    Malformed = 3,
}

/// <summary>Splits lines that end with LF or CR LF, and returns them without it. It does not check or change other bytes.</summary>
public sealed class LineCutter : IRecordCutter
{
    private const byte LineFeed = (byte)'\n';
    private const byte CarriageReturn = (byte)'\r';

    private LineCutter()
    {
    }

    /// <summary>The shared instance.</summary>
    public static LineCutter Shared { get; } = new();

    /// <inheritdoc/>
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        var end = bytes.IndexOf(LineFeed);
        if (end < 0)
        {
            (record, consumedBytes) = (default, 0);
            return CanFit(bytes, maxRecordBytes) ? CutResult.Incomplete : CutResult.TooLong;
        }

        consumedBytes = end + 1;
        if (end > 0 && bytes[end - 1] == CarriageReturn)
            end--;
        record = ..end;
        return end <= maxRecordBytes ? CutResult.Record : CutResult.TooLong;
    }

    private static bool CanFit(ReadOnlySpan<byte> start, int maxRecordBytes) =>
        start.Length <= maxRecordBytes || (start.Length == maxRecordBytes + 1 && start[^1] == CarriageReturn);
}

/// <summary>Splits records with a length prefix, which does not count itself. Zero means an empty record.</summary>
public sealed class LengthPrefixCutter : IRecordCutter
{
    private const int MaxVarintBytes = 5;

    private readonly LengthReader _read;

    private LengthPrefixCutter(LengthReader read) => _read = read;

    private delegate CutResult LengthReader(ReadOnlySpan<byte> bytes, out uint length, out int prefixBytes);

    /// <summary>Four bytes, unsigned, big-endian.</summary>
    public static LengthPrefixCutter Shared { get; } = new(ReadBigEndian);

    /// <summary>Four bytes, unsigned, little-endian.</summary>
    public static LengthPrefixCutter LittleEndian { get; } = new(ReadLittleEndian);

    /// <summary>One to five bytes of seven bits each, the lowest first; all but the last have the highest bit set (LEB128, as Protocol Buffers write it).</summary>
    /// <remarks>A length of more than 32 bits, or of more than five bytes, is malformed.</remarks>
    public static LengthPrefixCutter Varint { get; } = new(ReadVarint);

    /// <inheritdoc/>
    /// <remarks>A length above the limit is refused as soon as it is read, before any memory is allocated for it.</remarks>
    public CutResult Cut(ReadOnlySpan<byte> bytes, int maxRecordBytes, out Range record, out int consumedBytes)
    {
        (record, consumedBytes) = (default, 0);
        var result = _read(bytes, out var length, out var start);
        if (result != CutResult.Record)
            return result;
        if (length > maxRecordBytes)
            return CutResult.TooLong;
        var end = start + (int)length;
        if (bytes.Length < end)
            return CutResult.Incomplete;
        record = start..end;
        consumedBytes = end;
        return CutResult.Record;
    }

    private static CutResult ReadBigEndian(ReadOnlySpan<byte> bytes, out uint length, out int prefixBytes)
    {
        prefixBytes = sizeof(uint);
        return BinaryPrimitives.TryReadUInt32BigEndian(bytes, out length) ? CutResult.Record : CutResult.Incomplete;
    }

    private static CutResult ReadLittleEndian(ReadOnlySpan<byte> bytes, out uint length, out int prefixBytes)
    {
        prefixBytes = sizeof(uint);
        return BinaryPrimitives.TryReadUInt32LittleEndian(bytes, out length) ? CutResult.Record : CutResult.Incomplete;
    }

    private static CutResult ReadVarint(ReadOnlySpan<byte> bytes, out uint length, out int prefixBytes)
    {
        const int bitsInByte = 7, highBit = 0x80;
        var value = 0UL;
        (length, prefixBytes) = (0, 0);
        while (prefixBytes < bytes.Length)
        {
            var part = bytes[prefixBytes];
            value |= (ulong)(part & (highBit - 1)) << (bitsInByte * prefixBytes++);
            if (value > uint.MaxValue || (part >= highBit && prefixBytes == MaxVarintBytes))
                return CutResult.Malformed;
            length = (uint)value;
            if (part < highBit)
                return CutResult.Record;
        }

        return CutResult.Incomplete;
    }
}
