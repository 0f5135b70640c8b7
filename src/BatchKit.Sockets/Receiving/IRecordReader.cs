using Microsoft.Extensions.ObjectPool;

namespace BatchKit.Broadcast.Receiving;

/// <summary>Splits one connection's bytes into records.</summary>
internal interface IRecordReader
{
    /// <summary>Which rule or limit the client broke, when <see cref="TryRead"/> returned false.</summary>
    string? Failure => null;

    /// <summary>True when <see cref="TryRead"/> must be called again although it returned fewer than <see cref="RecordBatch.MaxRecords"/>, because it inflates only so much at once.</summary>
    bool HasMore => false;

    /// <summary>How many more bytes the last <see cref="TryRead"/> inflated than it consumed. Limits of input count them too.</summary>
    int AddedBytes => 0;

    /// <summary>Reads all whole records, but at most <see cref="RecordBatch.MaxRecords"/>; it is then called again.</summary>
    /// <param name="received">The received bytes that are not consumed yet; the reader may change them in place.</param>
    /// <param name="records">Gets the records. Their bytes may lie in the received bytes, and must stay unchanged until the next call.</param>
    /// <param name="consumedBytes">How many bytes the reader has finished with.</param>
    /// <returns>False when the client broke a rule or a limit and must be disconnected.</returns>
    bool TryRead(Memory<byte> received, List<ReceivedRecord> records, out int consumedBytes);
}

/// <summary>The records of one read. Rented only while there is something to deliver, so that a silent connection holds none.</summary>
internal sealed class RecordBatch
{
    /// <summary>The most records that are delivered at once. A 64 KB read of empty lines would otherwise become a megabyte of records.</summary>
    public const int MaxRecords = 1024;

    private static readonly ObjectPool<RecordBatch> Pool = new DefaultObjectPool<RecordBatch>(new DefaultPooledObjectPolicy<RecordBatch>());

    private ReceivedRecord[] _memory = new ReceivedRecord[64];

    public List<ReceivedRecord> Records { get; } = new(64);

    public static RecordBatch Rent() => Pool.Get();

    public void Return()
    {
        Clear();
        if (Records.Capacity <= MaxRecords)
            Pool.Return(this);
    }

    /// <summary>The records as memory, valid until they are cleared.</summary>
    public ReadOnlyMemory<ReceivedRecord> AsMemory()
    {
        if (_memory.Length < Records.Count)
            _memory = new ReceivedRecord[Records.Capacity];
        Records.CopyTo(_memory);
        return _memory.AsMemory(0, Records.Count);
    }

    public void Clear()
    {
        Array.Clear(_memory, 0, Math.Min(Records.Count, _memory.Length));
        Records.Clear();
    }
}

/// <summary>Splits bytes into records with a cutter; the records lie in the received bytes, unless their text must be filtered.</summary>
internal sealed class CutRecordReader(IRecordCutter cutter, int maxRecordBytes, bool filtersText = false) : IRecordReader
{
    private readonly RecordBytes _filtered = new();

    public string? Failure { get; private set; }

    public bool TryRead(Memory<byte> received, List<ReceivedRecord> records, out int consumedBytes)
    {
        _filtered.Clear();
        consumedBytes = 0;
        while (consumedBytes < received.Length && records.Count < RecordBatch.MaxRecords)
        {
            var rest = received[consumedBytes..];
            switch (cutter.Cut(rest.Span, maxRecordBytes, out var record, out var consumed))
            {
                case CutResult.Incomplete:
                    return true;
                case CutResult.Record when consumed > 0:
                    records.Add(new ReceivedRecord(filtersText ? Filter(rest[record]) : rest[record]));
                    consumedBytes += consumed;
                    break;
                case CutResult.TooLong:
                    Failure = $"a record above {maxRecordBytes} bytes";
                    return false;
                case CutResult.Malformed:
                    Failure = "a malformed record";
                    return false;
                default:
                    throw new InvalidOperationException($"{cutter} cut a record that consumes nothing.");
            }
        }

        return true;
    }

    private ReadOnlyMemory<byte> Filter(ReadOnlyMemory<byte> text)
    {
        if (PlayerText.IsClean(text.Span))
            return text;
        var free = _filtered.GetFree(PlayerText.GetMaxBytes(text.Length));
        return _filtered.Take(PlayerText.Filter(text.Span, free));
    }
}

/// <summary>Memory for the records of one read whose bytes had to be changed.</summary>
internal sealed class RecordBytes
{
    // The most that is kept for an idle client.
    private const int MaxKeptBytes = 4096;

    private byte[] _bytes = [];
    private int _length;

    /// <summary>Free memory after what was taken. Memory that was taken before stays valid.</summary>
    public Span<byte> GetFree(int bytes)
    {
        if (_bytes.Length - _length < bytes)
        {
            // Earlier records keep the old array.
            _bytes = new byte[Math.Max(bytes, (int)Math.Min(2L * _bytes.Length, Array.MaxLength))];
            _length = 0;
        }

        return _bytes.AsSpan(_length);
    }

    /// <summary>Takes what was written to the free memory.</summary>
    public ReadOnlyMemory<byte> Take(int bytes)
    {
        var taken = _bytes.AsMemory(_length, bytes);
        _length += bytes;
        return taken;
    }

    /// <summary>Frees everything.</summary>
    public void Clear()
    {
        _length = 0;
        if (_bytes.Length > MaxKeptBytes)
            _bytes = [];
    }
}
