namespace BatchKit.Batches;

/// <summary>The batches of one part of the capacity that wait, the oldest first, so that the policy that drops the oldest finds it at once, however many handles and batches there are.</summary>
internal sealed class BatchAges
{
    // Guards the lists, those of the handles, and the batches' links. It may be taken under a handle's lock, and nothing is called under it.
    private readonly Lock _gate = new();
    private readonly BatchList _held = new(ofHandle: false);
    private readonly BatchList _queued = new(ofHandle: false);

    /// <summary>A batch begins: it is the youngest that a handle holds.</summary>
    public void AddHeld(PendingBatch batch)
    {
        lock (_gate)
        {
            (batch.Ages, batch.IsAgedAsQueued) = (this, false);
            _held.Add(batch);
            batch.Settlement.Budget.Waiting!.Add(batch);
        }
    }

    /// <summary>A batch is being queued, on all its routes.</summary>
    public void MoveToQueued(PendingBatch batch)
    {
        lock (_gate)
        {
            if (batch.Ages != this)
                return;
            _held.Remove(batch);
            _queued.Add(batch);
            (batch.IsAgedAsQueued, batch.WaitingRoutes) = (true, batch.Routes.Length);
        }
    }

    /// <summary>A batch left one of its queues. It waits until it has left all of them.</summary>
    public void CountLeft(PendingBatch batch)
    {
        lock (_gate)
        {
            if (batch.Ages == this && --batch.WaitingRoutes == 0)
                RemoveLocked(batch);
        }
    }

    /// <summary>Removes a batch, if it is there in that use of it.</summary>
    public void Remove(PendingBatch batch, long version)
    {
        lock (_gate)
        {
            if (batch.Version == version)
                RemoveLocked(batch);
        }
    }

    /// <summary>The batch that has waited longest: queued ones before those that scopes hold.</summary>
    public OldestBatch? FindOldest()
    {
        lock (_gate)
            return OldestBatch.Of(_queued.First ?? _held.First);
    }

    /// <summary>The batch of another handle that scopes hold and that has waited longest behind a given one.</summary>
    public OldestBatch? FindHeldBehind(in OldestBatch older)
    {
        lock (_gate)
        {
            var next = older.Batch.Version == older.Version && older.Batch.Ages == this && !older.Batch.IsAgedAsQueued ? older.Batch : null;
            while (next is not null && next.Handle == older.Handle)
                next = next.Links(ofHandle: false).Next;
            return OldestBatch.Of(next);
        }
    }

    /// <summary>The handle's batch that has waited longest.</summary>
    public OldestBatch? FindOldest(HandleBudget handle)
    {
        lock (_gate)
            return OldestBatch.Of(handle.Waiting!.First);
    }

    // The batch may be in another use by now, and then belongs to another list, or to a list of this object that the lock guards.
    private void RemoveLocked(PendingBatch batch)
    {
        if (batch.Ages != this)
            return;
        batch.Ages = null;
        if (batch.IsAgedAsQueued)
            _queued.Remove(batch);
        else
            _held.Remove(batch);
        batch.Settlement.Budget.Waiting!.Remove(batch);
    }
}

/// <summary>A batch that waits, as it was when it was found: by now it may be sent, and in use again.</summary>
/// <param name="Batch">The batch.</param>
/// <param name="Version">Which use of it.</param>
/// <param name="Handle">Its handle.</param>
/// <param name="IsHeld">True when a scope holds it; false when it is queued.</param>
internal readonly record struct OldestBatch(PendingBatch Batch, long Version, OutputHandle Handle, bool IsHeld)
{
    public static OldestBatch? Of(PendingBatch? batch) => batch is null ? null : new OldestBatch(batch, batch.Version, batch.Handle, !batch.IsAgedAsQueued);
}

/// <summary>Batches in the order in which they came, linked with each other: any of them leaves at once.</summary>
/// <param name="ofHandle">Which of a batch's two pairs of links it uses: that of its handle's list, or that of its route's.</param>
internal sealed class BatchList(bool ofHandle)
{
    private PendingBatch? _last;

    public PendingBatch? First { get; private set; }

    public void Add(PendingBatch batch)
    {
        batch.Links(ofHandle).Previous = _last;
        if (_last is null)
            First = batch;
        else
            _last.Links(ofHandle).Next = batch;
        _last = batch;
    }

    public void Remove(PendingBatch batch)
    {
        ref var links = ref batch.Links(ofHandle);
        if (links.Previous is null)
            First = links.Next;
        else
            links.Previous.Links(ofHandle).Next = links.Next;
        if (links.Next is null)
            _last = links.Previous;
        else
            links.Next.Links(ofHandle).Previous = links.Previous;
        links = default;
    }
}

/// <summary>A batch's neighbours in a <see cref="BatchList"/>.</summary>
internal struct BatchLinks
{
    public PendingBatch? Previous { get; set; }

    public PendingBatch? Next { get; set; }
}
