using System.Buffers;

namespace BatchKit.Broadcast.Tests.Receiving;

/// <summary>Keeps copies of the records, each behind its length, in one array that is used again.</summary>
internal sealed class RecordCollector : IConnectionHandler
{
    private readonly ArrayBufferWriter<byte> _bytes = new();

    public int Count { get; private set; }

    public int Calls { get; private set; }

    /// <summary>The records, each behind its length.</summary>
    public ReadOnlySpan<byte> Bytes => _bytes.WrittenSpan;

    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
    {
        Calls++;
        foreach (var record in records.Span)
            Add(record.Payload.Span);
        return default;
    }

    public void Add(ReadOnlySpan<byte> record)
    {
        Count++;
        BitConverter.TryWriteBytes(_bytes.GetSpan(sizeof(int)), record.Length);
        _bytes.Advance(sizeof(int));
        _bytes.Write(record);
    }

    public void Clear()
    {
        (Count, Calls) = (0, 0);
        _bytes.ResetWrittenCount();
    }
}
