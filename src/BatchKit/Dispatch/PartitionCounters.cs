using BatchKit.Batches;

namespace BatchKit.Dispatch;

/// <summary>Counts the outcomes of one partition's output. Written by one thread at a time, read by any.</summary>
internal sealed class PartitionCounters
{
    private readonly long[] _settledMessages = new long[(int)SettlementOutcome.Failed + 1];
    private long _unscopedBatches;
    private long _sends;
    private long _failedSends;

    /// <summary>Batches that were sealed because their sender took them.</summary>
    public long UnscopedBatches => Volatile.Read(ref _unscopedBatches);

    public long Sends => Volatile.Read(ref _sends);

    public long FailedSends => Volatile.Read(ref _failedSends);

    public long Messages(SettlementOutcome outcome) => Volatile.Read(ref _settledMessages[(int)outcome]);

    public void CountUnscoped(int batches) => Volatile.Write(ref _unscopedBatches, _unscopedBatches + batches);

    public void CountSend() => Volatile.Write(ref _sends, _sends + 1);

    public void CountFailedSend() => Volatile.Write(ref _failedSends, _failedSends + 1);

    /// <summary>Settles a batch on its route, and counts its messages once that was the last route.</summary>
    public void Settle(RoutedBatch batch, SettlementOutcome outcome, Exception? failure, HashSet<int>? refused = null)
    {
        var content = batch.Content;
        if (!content.SettleRoute(batch, outcome, failure, refused))
            return;

        // Counted first, so that a caller that awaits the batch finds it counted.
        var refusedMessages = content.RefusedMessages;
        Count(content.Outcome, content.Count - refusedMessages);
        if (refusedMessages > 0)
            Count(SettlementOutcome.Failed, refusedMessages);
        content.Finish(refusedMessages);
    }

    private void Count(SettlementOutcome outcome, int messages)
    {
        ref var counter = ref _settledMessages[(int)outcome];
        Volatile.Write(ref counter, counter + messages);
    }
}
