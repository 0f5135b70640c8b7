using Microsoft.Extensions.ObjectPool;

namespace BatchKit.Broadcast.Receiving;

/// <summary>The records of one read, on their way to a handler. Rented for as long as a connection has something to read, so that a silent one holds none.</summary>
internal sealed class RecordBatch
{
    /// <summary>So many are handed over at once; a client of empty lines would make a 64 KB read a megabyte of records.</summary>
    public const int MaxRecords = 1024;

    private static readonly ObjectPool<RecordBatch> Pool = new DefaultObjectPool<RecordBatch>(new DefaultPooledObjectPolicy<RecordBatch>());

    private ReceivedRecord[] _handed = new ReceivedRecord[64];

    public List<ReceivedRecord> Records { get; } = new(64);

    public static RecordBatch Rent() => Pool.Get();

    public void Return()
    {
        Clear();
        if (Records.Capacity <= MaxRecords)
            Pool.Return(this);
    }

    /// <summary>The records as memory, valid until they are cleared.</summary>
    public ReadOnlyMemory<ReceivedRecord> Hand()
    {
        if (_handed.Length < Records.Count)
            _handed = new ReceivedRecord[Records.Capacity];
        Records.CopyTo(_handed);
        return _handed.AsMemory(0, Records.Count);
    }

    public void Clear()
    {
        Array.Clear(_handed, 0, Math.Min(Records.Count, _handed.Length));
        Records.Clear();
    }
}
