using BatchKit.Transports;

namespace BatchKit.Postgres.Outbox;

/// <summary>The frames of a claim's rows, which of their batches the next hop still has to take, and what that means for each row. One thread at a time.</summary>
internal sealed class StoredFrames : IDisposable
{
    private readonly List<ReceivedFrame> _frames = [];
    private readonly List<StoredRow> _rows = [];

    // Side by side, in the order of the rows: a batch and the row that it came from.
    private MessageBatch[] _pending = [];
    private StoredRow[] _rowsOfPending = [];
    private int _count;

    public ReadOnlyMemory<MessageBatch> Pending => _pending.AsMemory(0, _count);

    /// <summary>Takes in a row's batches.</summary>
    /// <exception cref="FrameFormatException">It holds no frame.</exception>
    public void Add(QueueMessage message)
    {
        var frame = FrameReader.Read(message.Payload);
        _frames.Add(frame);
        var batches = frame.Batches.Span;
        var row = new StoredRow(message, batches.Length);
        _rows.Add(row);
        if (_count + batches.Length > _pending.Length)
        {
            var room = Math.Max(_count + batches.Length, 2 * _pending.Length);
            Array.Resize(ref _pending, room);
            Array.Resize(ref _rowsOfPending, room);
        }

        batches.CopyTo(_pending.AsSpan(_count));
        _rowsOfPending.AsSpan(_count, batches.Length).Fill(row);
        _count += batches.Length;
    }

    public void AcknowledgeAll()
    {
        for (var index = 0; index < _count; index++)
            _rowsOfPending[index].Acknowledge();
        _count = 0;
    }

    /// <summary>Takes out what has a final outcome, and says how many are refused.</summary>
    public int Settle(BatchSendException exception)
    {
        var (kept, refused) = (0, 0);
        for (var index = 0; index < _count; index++)
        {
            switch (index < exception.Outcomes.Length ? exception.Outcomes[index] : BatchOutcome.Unacknowledged)
            {
                case BatchOutcome.Acknowledged:
                    _rowsOfPending[index].Acknowledge();
                    break;
                case BatchOutcome.Refused:
                    _rowsOfPending[index].Refuse(exception.Message);
                    refused++;
                    break;
                default:
                    _pending[kept] = _pending[index];
                    _rowsOfPending[kept++] = _rowsOfPending[index];
                    break;
            }
        }

        _count = kept;
        return refused;
    }

    public void Dispose()
    {
        foreach (var frame in _frames)
            frame.Dispose();
    }
}
