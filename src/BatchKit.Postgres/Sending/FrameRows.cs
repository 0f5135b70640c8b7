using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>Batches that are one row: a frame, encoded again without those that are stored already.</summary>
internal sealed class FrameRows(QueueEntry queue, ReadOnlyMemory<MessageBatch> batches) : IProducerRows
{
    private readonly QueueRow[] _row = new QueueRow[1];
    private PooledFrame? _frame;

    public ProducerId Producer => batches.Span[0].Producer;

    public long LastNumber => batches.Span[^1].Number;

    public IEnumerable<QueueEntry> Queues => [queue];

    public ReadOnlyMemory<QueueRow> Above(long number, out long firstNumber)
    {
        var stored = 0;
        while (batches.Span[stored].Number <= number)
            stored++;
        firstNumber = batches.Span[stored].Number;
        _frame?.Dispose();
        _frame = PooledFrame.Encode(batches.Span[stored..]);
        _row[0] = new QueueRow(queue, LastNumber, _frame.Bytes);
        return _row;
    }

    public void Dispose() => _frame?.Dispose();
}
