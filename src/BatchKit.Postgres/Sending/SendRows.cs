using System.Buffers;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;

namespace BatchKit.Postgres.Sending;

/// <summary>The rows of a send, batch by batch, in rented memory; for frames it keeps the batches, which are encoded when they are stored.</summary>
internal sealed class SendRows : IDisposable
{
    private readonly ReadOnlyMemory<MessageBatch> _batches;
    private readonly QueueEntry? _frameQueue;
    private readonly int[] _ends;
    private readonly QueueRow[] _rows;
    private int _count;

    // Many messages mostly share one header.
    private MessageHeader? _lastHeader;
    private RowHeader? _lastRead;

    public SendRows(ReadOnlyMemory<MessageBatch> batches, QueueEntry? frameQueue)
    {
        _batches = batches;
        _frameQueue = frameQueue;
        _ends = new int[batches.Length];
        var messages = 0;
        foreach (var batch in batches.Span)
            messages += batch.Count;
        _rows = frameQueue is null ? ArrayPool<QueueRow>.Shared.Rent(messages) : [];
    }

    /// <summary>Adds a batch's messages.</summary>
    /// <returns>Why none of them was added; null when all were.</returns>
    public string? TryAdd(MessageBatch batch, QueueEntry queue)
    {
        var start = _count;
        foreach (var message in batch)
        {
            RowHeader? header = null;
            if (message.Header is { } given && (header = Read(given, out var refusal)) is null)
            {
                _count = start;
                return refusal;
            }

            _rows[_count++] = new QueueRow(queue, batch.Number, message.Payload, header);
        }

        return null;
    }

    public void EndBatch(int batch) => _ends[batch] = _count;

    /// <summary>What one statement stores of it.</summary>
    public IProducerRows Of(Range run)
    {
        var (start, length) = run.GetOffsetAndLength(_batches.Length);
        if (_frameQueue is { } queue)
            return new FrameRows(queue, _batches.Slice(start, length));
        var first = start == 0 ? 0 : _ends[start - 1];
        return new MessageRows(_batches.Span[start].Producer, _rows.AsMemory(first.._ends[start + length - 1]));
    }

    public void Dispose()
    {
        if (_rows.Length == 0)
            return;
        _rows.AsSpan(0, _count).Clear();
        ArrayPool<QueueRow>.Shared.Return(_rows);
    }

    private RowHeader? Read(MessageHeader header, out string? refusal)
    {
        refusal = null;
        if (!ReferenceEquals(header, _lastHeader))
            (_lastHeader, _lastRead) = (header, RowHeader.Read(header, out refusal));
        return _lastRead ?? RowHeader.Read(header, out refusal);
    }
}

/// <summary>What one statement stores: rows of one producer, by the numbers of their batches.</summary>
internal interface IProducerRows : IDisposable
{
    ProducerId Producer { get; }

    /// <summary>The number of the last batch.</summary>
    long LastNumber { get; }

    /// <summary>The queues that they go to, each at least once.</summary>
    IEnumerable<QueueEntry> Queues { get; }

    /// <summary>The rows of the batches above a number that is below the last.</summary>
    /// <param name="number">The number.</param>
    /// <param name="firstNumber">The number of the first batch above it.</param>
    ReadOnlyMemory<QueueRow> Above(long number, out long firstNumber);
}

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

/// <summary>A message on its way into the table.</summary>
/// <param name="Queue">Where it goes.</param>
/// <param name="Number">The producer's number of its batch.</param>
/// <param name="Payload">Its bytes; valid as long as the send.</param>
/// <param name="Header">What its header says; null for a plain message.</param>
internal readonly record struct QueueRow(QueueEntry Queue, long Number, ReadOnlyMemory<byte> Payload, RowHeader? Header = null);
