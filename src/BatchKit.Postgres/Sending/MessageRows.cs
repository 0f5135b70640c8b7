using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>Batches whose messages are rows.</summary>
internal sealed class MessageRows(ProducerId producer, ReadOnlyMemory<QueueRow> rows) : IProducerRows
{
    public ProducerId Producer => producer;

    public long LastNumber => rows.Span[^1].Number;

    public IEnumerable<QueueEntry> Queues
    {
        get
        {
            QueueEntry? last = null;
            for (var index = 0; index < rows.Length; index++)
            {
                var queue = rows.Span[index].Queue;
                if (!ReferenceEquals(queue, last))
                    yield return last = queue;
            }
        }
    }

    public ReadOnlyMemory<QueueRow> Above(long number, out long firstNumber)
    {
        var stored = 0;
        while (rows.Span[stored].Number <= number)
            stored++;
        firstNumber = rows.Span[stored].Number;
        return rows[stored..];
    }

    public void Dispose()
    {
    }
}
