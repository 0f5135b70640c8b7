namespace BatchKit.Transports;

/// <summary>The batches of the frame under way that the next hop still has to take, in order.</summary>
internal sealed class PendingDelivery
{
    // As many as a send has by default are kept from frame to frame.
    private const int MaxKept = 4096;

    private MessageBatch[] _batches = [];

    public int Count { get; private set; }

    public ReadOnlyMemory<MessageBatch> Batches => _batches.AsMemory(0, Count);

    public void Add(MessageBatch batch)
    {
        if (Count == _batches.Length)
            Array.Resize(ref _batches, Math.Max(4, Count * 2));
        _batches[Count++] = batch;
    }

    /// <summary>Takes out the batches with a final outcome. The tallies say what was acknowledged and what was refused; a refused message of an acknowledged batch counts as refused.</summary>
    public (BatchTally Acknowledged, BatchTally Refused) Settle(BatchSendException exception)
    {
        var outcomes = exception.Outcomes;
        var refusedMessages = CountRefusedMessages(exception);
        var acknowledged = new BatchTally(0, -refusedMessages);
        var refused = new BatchTally(0, refusedMessages);
        var kept = 0;
        for (var index = 0; index < Count; index++)
        {
            var batch = _batches[index];
            var outcome = index < outcomes.Length ? outcomes[index] : BatchOutcome.Unacknowledged;
            if (outcome == BatchOutcome.Acknowledged)
                acknowledged = acknowledged.With(batch);
            else if (outcome == BatchOutcome.Refused)
                refused = refused.With(batch);
            else
                _batches[kept++] = batch;
        }

        _batches.AsSpan(kept, Count - kept).Clear();
        Count = kept;
        return (acknowledged, refused);
    }

    public BatchTally Tally()
    {
        var tally = default(BatchTally);
        foreach (var batch in Batches.Span)
            tally = tally.With(batch);
        return tally;
    }

    public void Clear()
    {
        _batches.AsSpan(0, Count).Clear();
        Count = 0;
        if (_batches.Length > MaxKept)
            _batches = [];
    }

    private int CountRefusedMessages(BatchSendException exception)
    {
        var count = 0;
        foreach (var (batch, message) in exception.RefusedMessages.Distinct())
        {
            var isAcknowledged = batch >= 0 && batch < Math.Min(Count, exception.Outcomes.Length) && exception.Outcomes[batch] == BatchOutcome.Acknowledged;
            count += isAcknowledged && message >= 0 && message < _batches[batch].Count ? 1 : 0;
        }

        return count;
    }
}
