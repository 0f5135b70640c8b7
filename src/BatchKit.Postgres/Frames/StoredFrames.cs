using System.Diagnostics;
using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Postgres.Frames;

/// <summary>The frames of a claim's rows, and which of their batches are still pending; marks a row when all its batches are settled. Not thread-safe.</summary>
internal sealed class StoredFrames : IDisposable
{
    private readonly List<ReceivedFrame> _frames = [];
    private readonly List<StoredRow> _rows = [];
    private readonly List<Task> _abandoned = [];

    // Parallel arrays: a batch, and the row that it came from. First those that may be sent, then those that wait, each in the order of the rows.
    private MessageBatch[] _pending = [];
    private StoredRow[] _rowsOfPending = [];

    public ReadOnlyMemory<MessageBatch> Pending => _pending.AsMemory(0, Count);

    public IReadOnlyList<StoredRow> Rows => _rows;

    /// <summary>How many batches are pending.</summary>
    public int Count { get; private set; }

    /// <summary>How many of them, the first ones, may be sent now.</summary>
    public int Free { get; private set; }

    public int PendingMessages => _pending.Take(Count).Sum(static batch => batch.Count);

    /// <summary>The spans of the sends that stored the frames.</summary>
    public IEnumerable<ActivityContext> Traces => _frames.Select(static frame => frame.Trace);

    /// <summary>True when the inner transport refused batches of the last send.</summary>
    public bool HasRefusals { get; private set; }

    /// <summary>Acknowledged batches of rows that still have others.</summary>
    public HashSet<(ProducerId Producer, long Number)> Arrived { get; } = [];

    /// <summary>Adds a row's batches.</summary>
    /// <param name="message">The row.</param>
    /// <param name="arrived">Batches that are acknowledged already.</param>
    /// <exception cref="FrameFormatException">The row is not a frame.</exception>
    public void Add(QueueMessage message, HashSet<(ProducerId Producer, long Number)> arrived)
    {
        var frame = FrameReader.Read(ReplayedFrame.Read(message));
        _frames.Add(frame);
        var batches = frame.Batches.Span;
        var row = new StoredRow(message, batches.Length);
        _rows.Add(row);
        if (Count + batches.Length > _pending.Length)
        {
            var capacity = Math.Max(Count + batches.Length, 2 * _pending.Length);
            Array.Resize(ref _pending, capacity);
            Array.Resize(ref _rowsOfPending, capacity);
        }

        foreach (var batch in batches)
        {
            if (arrived.Contains((batch.Producer, batch.Number)))
                Acknowledge(batch, row);
            else
                (_pending[Count], _rowsOfPending[Count++]) = (batch, row);
        }

        Free = Count;
    }

    /// <summary>Lets batches wait: those of rows that stand, and those behind them of one of their handles or producers.</summary>
    public void SetAside(Func<StoredRow, bool> stands)
    {
        var (handles, producers) = (new HashSet<OutputHandle>(), new HashSet<ProducerId>());
        var waiting = new List<(MessageBatch Batch, StoredRow Row)>();
        Free = 0;
        for (var index = 0; index < Count; index++)
        {
            var (batch, row) = (_pending[index], _rowsOfPending[index]);
            if (!stands(row) && !handles.Contains(batch.Handle) && !producers.Contains(batch.Producer))
            {
                (_pending[Free], _rowsOfPending[Free++]) = (batch, row);
                continue;
            }

            handles.Add(batch.Handle);
            producers.Add(batch.Producer);
            waiting.Add((batch, row));
        }

        for (var index = 0; index < waiting.Count; index++)
            (_pending[Free + index], _rowsOfPending[Free + index]) = waiting[index];
    }

    /// <summary>How many of the first batches one send has: at least one.</summary>
    public int CountNext(int most, int maxBytes)
    {
        var (count, bytes) = (0, 0L);
        while (count < Math.Min(most, Free) && ((bytes += _pending[count].Payload.Length) <= maxBytes || count == 0))
            count++;
        return count;
    }

    public StoredRow RowOf(int index) => _rowsOfPending[index];

    /// <summary>Where a row's first pending batch is.</summary>
    public int IndexOf(StoredRow row) => Array.IndexOf(_rowsOfPending, row, 0, Count);

    /// <summary>Where the first batch behind a row is whose own row does not stand; negative when there is none.</summary>
    public int IndexBehind(StoredRow row, Func<StoredRow, bool> stands)
    {
        var from = IndexOf(row);
        return Array.FindIndex(_rowsOfPending, from, Count - from, other => !stands(other));
    }

    /// <summary>Removes those batches of a send that have a final outcome.</summary>
    /// <param name="first">Where the send's batches begin.</param>
    /// <param name="count">How many it had.</param>
    /// <param name="exception">Their outcomes; null when all are acknowledged.</param>
    /// <returns>How many of them were refused, as a whole or in part.</returns>
    public int Settle(int first, int count, BatchSendException? exception)
    {
        var refusedInPart = exception?.RefusedMessages.Select(static refusal => refusal.Batch).ToHashSet() ?? [];
        var (kept, refused) = (first, 0);
        for (var index = first; index < Count; index++)
        {
            var place = index - first;
            switch (place >= count ? BatchOutcome.Unacknowledged : exception is null ? BatchOutcome.Acknowledged : OutcomeOf(exception, place))
            {
                case BatchOutcome.Acknowledged when !refusedInPart.Contains(place):
                    Acknowledge(_pending[index], _rowsOfPending[index]);
                    break;
                case BatchOutcome.Acknowledged or BatchOutcome.Refused:
                    _rowsOfPending[index].Refuse(FailureText.MessageOf(exception!));
                    refused++;
                    break;
                default:
                    (_pending[kept], _rowsOfPending[kept++]) = (_pending[index], _rowsOfPending[index]);
                    break;
            }
        }

        if (first < Free)
            Free -= Count - kept;
        Count = kept;
        HasRefusals = refused > 0;
        return refused;
    }

    /// <summary>Refuses what a row still has.</summary>
    public void Refuse(StoredRow row, string reason)
    {
        while (IndexOf(row) is >= 0 and var index)
            Settle(index, count: 1, new BatchSendException([BatchOutcome.Refused], reason));
    }

    /// <summary>Leaves its memory to a send that does not end, until that has ended.</summary>
    public void Abandon(Task sending)
    {
        _abandoned.Add(sending);
        _pending = [.. _pending];
    }

    public void Dispose()
    {
        if (_abandoned.Count == 0)
            _frames.ForEach(static frame => frame.Dispose());
        else
            _ = DisposeLaterAsync();
    }

    private async Task DisposeLaterAsync()
    {
        await Task.WhenAll(_abandoned).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        _frames.ForEach(static frame => frame.Dispose());
    }

    private static BatchOutcome OutcomeOf(BatchSendException exception, int place) => place < exception.Outcomes.Length ? exception.Outcomes[place] : BatchOutcome.Unacknowledged;

    private void Acknowledge(MessageBatch batch, StoredRow row)
    {
        if (!row.Acknowledge())
            Arrived.Add((batch.Producer, batch.Number));
    }
}

/// <summary>A row of the outbox. It is completed when all its batches are acknowledged. If one was refused, it is moved to the dead table, where an operator can see it.</summary>
internal sealed class StoredRow(QueueMessage message, int batches)
{
    private int _unsettled = batches;
    private string? _refusal;

    public long Id => message.Id;

    /// <returns>True when all its batches are settled.</returns>
    public bool Acknowledge() => Settle();

    public void Refuse(string reason)
    {
        _refusal = reason;
        Settle();
    }

    private bool Settle()
    {
        if (--_unsettled > 0)
            return false;
        if (_refusal is null)
            message.Complete();
        else
            message.Refuse(_refusal);
        return true;
    }
}
