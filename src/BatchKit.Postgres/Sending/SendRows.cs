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
