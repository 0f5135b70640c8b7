using System.Diagnostics;
using System.Runtime.InteropServices;
using BatchKit.Batches;
using BatchKit.Transports;

namespace BatchKit.Dispatch;

/// <summary>The batches of a partition's send under way, until each is settled. Only the partition's sender uses it, except to count pending messages.</summary>
internal sealed class OutgoingSend(PartitionCounters counters)
{
    private MessageBatch[] _batches = new MessageBatch[4];
    private int _count;
    private int _withheld;

    // How many at the start SettleAll has taken out; zero outside it.
    private int _taken;

    public int Count => _count;

    /// <summary>How many batches the next attempt has: the first ones.</summary>
    public int Offered => _count - _withheld;

    /// <summary>The batches of the next attempt.</summary>
    public ReadOnlyMemory<MessageBatch> Batches => _batches.AsMemory(0, Offered);

    public RoutedBatch this[int index] => (RoutedBatch)_batches[index];

    public void Add(RoutedBatch batch)
    {
        if (_batches.Length == _count)
            Array.Resize(ref _batches, Math.Max(_count * 2, 1));

        // Through a span, because an array of a base class checks the type at each store (5 ns). The count grows after the store, because others read it.
        _batches.AsSpan()[_count] = batch;
        Volatile.Write(ref _count, _count + 1);
    }

    /// <summary>Sets how many batches the next attempt has.</summary>
    public void Offer(int batches)
    {
        Debug.Assert(batches >= 0 && batches <= _count, "An attempt has batches of its send only.");
        _withheld = _count - batches;
    }

    /// <summary>Seals the batches that still took unscoped writes.</summary>
    /// <returns>How many of them it had to seal.</returns>
    public int EnsureSealed()
    {
        var sealedHere = 0;
        for (var index = 0; index < _count; index++)
            sealedHere += this[index].Content.EnsureSealed() ? 1 : 0;
        return sealedHere;
    }

    /// <summary>Settles the batches of which every message has expired. They have no number, and are not sent.</summary>
    /// <returns>False when nothing is left to send.</returns>
    public bool SettleExpired()
    {
        var first = 0;
        while (first < _count && this[first].Content.Count > 0)
            first++;
        return first == _count || SettleExpired(first);
    }

    public void MarkUnderWay()
    {
        for (var index = 0; index < _count; index++)
        {
            var batch = this[index];
            batch.IsUnderWay = true;
            batch.Content.MarkUnderWay();
        }
    }

    public void Number(ProducerId producer, ref long lastNumber)
    {
        for (var index = 0; index < _count; index++)
            this[index].Identify(producer, ++lastNumber);
    }

    /// <summary>Messages under way that no earlier route's partition counts, and the bytes of all that are under way. Read while the sender runs, so it may be off by a few while batches are settled.</summary>
    public (long Messages, long Bytes) CountPending()
    {
        var count = Volatile.Read(ref _count);
        var pending = (Messages: 0L, Bytes: 0L);
        foreach (var batch in _batches.AsSpan(0, Math.Min(count, _batches.Length)))
        {
            if (batch is RoutedBatch { IsSettled: false } routed)
                routed.AddTo(ref pending);
        }

        return pending;
    }

    /// <summary>Drops the references to settled batches that its array still has: a thread may keep its last handle, and through it this partition.</summary>
    public void Forget()
    {
        // A send that blocks its thread still has its own.
        if (_count == 0)
            _batches = [];
    }

    public void SettleAll(SettlementOutcome outcome, Exception? failure)
    {
        // Each is taken out before it is settled: after an exception the rest is settled, and none is twice.
        while (_taken < _count)
            counters.Settle(this[_taken++], outcome, failure);
        _taken = _count = _withheld = 0;
    }

    /// <summary>Settles the batches of a successful attempt; those that it left out stay.</summary>
    /// <returns>How many it settled.</returns>
    public int SettleOffered()
    {
        var (settled, next) = (Offered, 0);
        try
        {
            while (next < settled)
                counters.Settle(this[next++], SettlementOutcome.Acknowledged, failure: null);
        }
        finally
        {
            Keep(kept: 0, next);
        }

        return settled;
    }

    /// <summary>True when a failed attempt ends the send: <see cref="SettleDecided"/> would settle or hold all of it.</summary>
    public bool IsDecided(Exception failure, Func<RoutedBatch, bool> isTooOld, bool givesUpAll)
    {
        var partial = failure as BatchSendException;
        var mayGiveUp = givesUpAll || CountUndecided(partial) == 1;
        for (var index = 0; index < Offered; index++)
        {
            if (OutcomeOf(partial, index) == BatchOutcome.Unacknowledged && !(mayGiveUp && isTooOld(this[index])))
                return false;
        }

        return _withheld == 0;
    }

    /// <summary>Settles what a failed attempt decided, and what is too old to be sent again; the rest stays, in order.</summary>
    /// <param name="failure">Why it failed.</param>
    /// <param name="isTooOld">Whether a batch may be given up.</param>
    /// <param name="givesUpAll">False when only a batch that failed alone is given up.</param>
    /// <param name="held">Gets what busy receivers did not take, and what comes after it for them.</param>
    public DecidedBatches SettleDecided(Exception failure, Func<RoutedBatch, bool> isTooOld, bool givesUpAll, HeldSend held)
    {
        var partial = failure as BatchSendException;
        var mayGiveUp = givesUpAll || CountUndecided(partial) == 1;
        var refusals = FindRefused(partial);
        var decided = default(DecidedBatches);
        var (kept, next) = (0, 0);
        try
        {
            for (var offered = Offered; next < offered;)
            {
                var (batch, outcome, refused) = (this[next], OutcomeOf(partial, next), refusals?.GetValueOrDefault(next));
                var isDecided = IsDecided(batch, outcome, mayGiveUp, isTooOld);
                next++;
                decided = decided.With(outcome, isDecided, refused?.Count ?? 0);
                if (!isDecided && (outcome == BatchOutcome.Busy || held.MustWait(batch)))
                    held.Add(batch);
                else if (!isDecided)
                    _batches[kept++] = batch;
                else if (outcome == BatchOutcome.Acknowledged)
                    counters.Settle(batch, SettlementOutcome.Acknowledged, refused is null ? null : failure, refused);
                else
                    counters.Settle(batch, SettlementOutcome.Failed, failure);
            }
        }
        finally
        {
            Keep(kept, next);
        }

        if (held.Batches.Count > 0)
            HoldFrom(kept, held);
        return decided with { Left = kept };
    }

    // What the attempt left out comes after it, and must not overtake it.
    private void HoldFrom(int first, HeldSend held)
    {
        var kept = first;
        for (var next = first; next < _count; next++)
        {
            if (held.MustWait(this[next]))
                held.Add(this[next]);
            else
                _batches[kept++] = _batches[next];
        }

        Keep(kept, _count);
        _withheld = kept - first;
    }

    private bool SettleExpired(int first)
    {
        var (kept, next) = (first, first);
        try
        {
            while (next < _count)
            {
                var batch = this[next++];
                if (batch.Content.Count > 0)
                    _batches[kept++] = batch;
                else
                    counters.Settle(batch, SettlementOutcome.Acknowledged, failure: null);
            }
        }
        finally
        {
            Keep(kept, next);
        }

        return _count > 0;
    }

    /// <summary>Leaves the present array and the batches' memory to an abandoned call until that call has ended.</summary>
    public void Abandon(Task send)
    {
        var contents = new PendingBatch[Offered];
        for (var index = 0; index < Offered; index++)
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

    // What the next hop did not decide is decided when it is too old.
    private static bool IsDecided(RoutedBatch batch, BatchOutcome outcome, bool mayGiveUp, Func<RoutedBatch, bool> isTooOld) => outcome switch
    {
        BatchOutcome.Unacknowledged => mayGiveUp && isTooOld(batch),
        BatchOutcome.Busy => isTooOld(batch),
        _ => true,
    };

    private static BatchOutcome OutcomeOf(BatchSendException? partial, int index) => partial?.OutcomeOf(index) ?? BatchOutcome.Unacknowledged;

    private int CountUndecided(BatchSendException? partial)
    {
        var undecided = 0;
        for (var index = 0; index < Offered; index++)
            undecided += OutcomeOf(partial, index) == BatchOutcome.Unacknowledged ? 1 : 0;
        return undecided;
    }

    // Moves what was not looked at behind what is kept: after an exception, too, nothing stays that was settled.
    private void Keep(int kept, int next)
    {
        var left = _count - next;
        _batches.AsSpan(next, left).CopyTo(_batches.AsSpan(kept));
        Volatile.Write(ref _count, kept + left);
    }

    // By batch. A transport may name a message twice, or one that does not exist.
    private Dictionary<int, HashSet<int>>? FindRefused(BatchSendException? partial)
    {
        if (partial is null or { RefusedMessages.IsEmpty: true })
            return null;
        var refused = new Dictionary<int, HashSet<int>>();
        foreach (var (batch, message) in partial.RefusedMessages)
        {
            if (batch >= 0 && batch < Offered && message >= 0 && message < this[batch].Count)
                (CollectionsMarshal.GetValueRefOrAddDefault(refused, batch, out _) ??= []).Add(message);
        }

        return refused;
    }
}

/// <summary>How many batches of a failed attempt were decided, and how.</summary>
/// <param name="Acknowledged">Batches that the next hop has.</param>
/// <param name="Refused">Batches that it will never take.</param>
/// <param name="GivenUp">Batches that are too old to be sent again.</param>
/// <param name="RefusedMessages">Messages of acknowledged batches that it will never take.</param>
/// <param name="Left">Batches of the attempt that are sent again.</param>
/// <param name="Busy">Batches whose receivers take nothing now, given up or held.</param>
internal readonly record struct DecidedBatches(int Acknowledged, int Refused, int GivenUp, int RefusedMessages, int Left, int Busy)
{
    /// <summary>Batches about which the next hop said something: it works.</summary>
    public int Answered => Acknowledged + Refused + Busy;

    /// <summary>True when the next hop answered to all batches of the attempt.</summary>
    public bool IsAnswered => Left == 0 && (GivenUp == 0 || Busy > 0);

    /// <summary>Counts a batch. One that is decided although the next hop said nothing of it is too old.</summary>
    public DecidedBatches With(BatchOutcome outcome, bool isDecided, int refusedMessages) => outcome switch
    {
        BatchOutcome.Acknowledged => this with { Acknowledged = Acknowledged + 1, RefusedMessages = RefusedMessages + refusedMessages },
        BatchOutcome.Refused => this with { Refused = Refused + 1 },
        BatchOutcome.Busy => this with { Busy = Busy + 1, GivenUp = GivenUp + (isDecided ? 1 : 0) },
        _ => this with { GivenUp = GivenUp + (isDecided ? 1 : 0) },
    };
}
