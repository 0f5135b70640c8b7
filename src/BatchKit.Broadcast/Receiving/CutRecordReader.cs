namespace BatchKit.Broadcast.Receiving;

/// <summary>Makes records by a cutter; they lie in what was received.</summary>
internal sealed class CutRecordReader(IRecordCutter cutter, int maxRecordBytes) : IRecordReader
{
    public string? Failure { get; private set; }

    public bool TryRead(Memory<byte> received, List<ReceivedRecord> records, out int consumedBytes)
    {
        consumedBytes = 0;
        while (consumedBytes < received.Length && records.Count < RecordBatch.MaxRecords)
        {
            var rest = received[consumedBytes..];
            switch (cutter.Cut(rest.Span, maxRecordBytes, out var record, out var consumed))
            {
                case CutResult.Incomplete:
                    return true;
                case CutResult.Record when consumed > 0:
                    records.Add(new ReceivedRecord(rest[record]));
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
}
