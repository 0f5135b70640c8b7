using System.Collections.Immutable;

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

    /// <summary>Takes out those with a final outcome, and says how many batches and messages had which.</summary>
    public (BatchTally Acknowledged, BatchTally Refused) Settle(ImmutableArray<BatchOutcome> outcomes)
    {
        var acknowledged = default(BatchTally);
        var refused = default(BatchTally);
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
}
