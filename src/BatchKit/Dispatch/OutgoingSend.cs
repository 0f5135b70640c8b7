using BatchKit.Transports;

namespace BatchKit.Dispatch;

/// <summary>The batches of a partition's send under way, until each is settled. Touched by the partition's sender alone.</summary>
internal sealed class OutgoingSend(PartitionCounters counters)
{
    private MessageBatch[] _batches = new MessageBatch[4];

    public int Count { get; private set; }

    public ReadOnlyMemory<MessageBatch> Batches => _batches.AsMemory(0, Count);

    public RoutedBatch this[int index] => (RoutedBatch)_batches[index];

    public void Add(RoutedBatch batch)
    {
        if (_batches.Length == Count)
            Array.Resize(ref _batches, Count * 2);

        // Through a span, because an array of a base class checks the type at each store (5 ns).
        _batches.AsSpan()[Count++] = batch;
    }

    /// <summary>Seals those that still took unscoped writes.</summary>
    /// <returns>How many of them it had to seal.</returns>
    public int EnsureSealed()
    {
        var sealedHere = 0;
        for (var index = 0; index < Count; index++)
            sealedHere += this[index].Content.EnsureSealed() ? 1 : 0;
        return sealedHere;
    }

    public void Number(ProducerId producer, ref long lastNumber)
    {
        for (var index = 0; index < Count; index++)
            this[index].Identify(producer, ++lastNumber);
    }

    /// <summary>Messages under way that no earlier route's partition counts.</summary>
    public long CountPendingMessages()
    {
        var pending = 0L;
        for (var index = 0; index < Count; index++)
            pending += this[index].StandsForContent ? this[index].Content.Count : 0;
        return pending;
    }

    public void SettleAll(Settled outcome, Exception? failure)
    {
        for (var index = 0; index < Count; index++)
            Settle(this[index], outcome, failure, counters);
        Count = 0;
    }

    /// <summary>Settles what a failed send decided and what is too old to be sent again; the rest stays, in order.</summary>
    public (int Acknowledged, int Refused, int GivenUp) SettleDecided(Exception failure, Func<RoutedBatch, bool> isTooOld)
    {
        var outcomes = failure is BatchSendException partial ? partial.Outcomes : [];
        var (kept, acknowledged, refused, givenUp) = (0, 0, 0, 0);
        for (var index = 0; index < Count; index++)
        {
            var batch = this[index];
            var outcome = index < outcomes.Length ? outcomes[index] : BatchOutcome.Unacknowledged;
            if (outcome == BatchOutcome.Acknowledged)
            {
                acknowledged++;
                Settle(batch, Settled.Acknowledged, failure: null, counters);
            }
            else if (outcome == BatchOutcome.Refused)
            {
                refused++;
                Settle(batch, Settled.Failed, failure, counters);
            }
            else if (isTooOld(batch))
            {
                givenUp++;
                Settle(batch, Settled.Failed, failure, counters);
            }
            else
            {
                _batches[kept++] = batch;
            }
        }

        Count = kept;
        return (acknowledged, refused, givenUp);
    }

    /// <summary>Leaves the present array and the batches' memory to an abandoned call until that has ended.</summary>
    public void Abandon(Task send)
    {
        var contents = new PendingBatch[Count];
        for (var index = 0; index < Count; index++)
        {
            contents[index] = this[index].Content;
            contents[index].AddReference();
        }

        _batches = _batches.AsSpan().ToArray();
        _ = send.ContinueWith(
            static (ended, state) =>
            {
                _ = ended.Exception;
                foreach (var content in (PendingBatch[])state!)
                    content.Release();
            },
            contents, CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
    }

    public static void Settle(RoutedBatch batch, Settled outcome, Exception? failure, PartitionCounters counters)
    {
        var content = batch.Content;
        if (!content.SettleRoute(batch, outcome, failure))
            return;
        // The batch may be in use again as soon as its room is released: what is needed of it is read first.
        var (worst, messages, settlement, sequence) = (content.Outcome, content.Count, content.Settlement, content.Sequence);
        var cause = content.Failure;
        counters.CountSettled(worst, messages);
        content.ReleaseRoom();
        settlement.Settle(sequence, worst == Settled.Acknowledged ? 0 : messages, cause);
    }
}
