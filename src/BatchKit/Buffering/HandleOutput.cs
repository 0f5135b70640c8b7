using System.Diagnostics;
using System.Runtime.CompilerServices;
using System.Text;
using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>One handle's open batch, and the sealed ones that its scopes hold back. Guarded by the handle's lock.</summary>
internal struct HandleOutput(OutputHandle handle, Lock gate, DispatchPartition[] partitions, BufferSettings settings, RouteBudget budget)
{
    private PendingBatch? _open;
    private long _openVersion;
    private PendingBatch? _firstHeld;
    private PendingBatch? _lastHeld;
    // The first of the held ones without a place; those behind it have none either.
    private PendingBatch? _firstUnplaced;
    private int _sealedMessages;
    private LatestValues? _latest;
    private long _acceptedMessages;
    private long _acceptedBytes;
    private long _supersededMessages;

    private readonly int _nameBytes = handle.Name is { } name ? Encoding.UTF8.GetByteCount(name) : 0;

    /// <summary>The largest open batch, by what its routes take with the handle's name.</summary>
    public int MaxBatchBytes { get; private set; }

    public HandleSettlement Settlement { get; } = new(settings, budget);

    /// <summary>False once the sender has sealed it: the batch may be settled and in another version by then.</summary>
    public readonly bool HasOpen => _open is not null && _open.IsOpen(_openVersion);

    /// <summary>False when there is certainly nothing to queue, as when most scopes open and many close.</summary>
    private readonly bool MayNeedQueueing => _open is not null || _firstHeld is not null || settings.Lingers;

    public readonly bool HasHeld => _firstHeld is not null || (HasOpen && !_open!.IsQueued);

    /// <summary>True while a sender may need the handle's lock to seal what is queued.</summary>
    public readonly bool MayNeedSealing => Settlement.Unsealed != 0 || (HasOpen && _open!.IsQueued);

    public readonly int HeldMessages => _sealedMessages + (HasOpen && !_open!.IsQueued ? _open.Count : 0);

    /// <summary>True when a message would find capacity now.</summary>
    public readonly bool HasRoomFor(int cost) => (HasOpen && _open!.MostCost - _open.Cost >= cost) || Settlement.Budget.HasRoomFor(cost);

    // A batch that costs little enough to grow takes the largest message without passing the largest int.
    public readonly bool IsFull(PendingBatch batch, int bytes) =>
        batch.FrameBytes + (long)bytes > MaxBatchBytes || batch.Count >= settings.MaxBatchMessages;

    /// <summary>The batch that takes the next message: the open one, or a new one behind it.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public PendingBatch OpenFor(int cost, MessageHeader? header, bool startsRun, bool needsOrder, ref SenderStarts starts) =>
        _open is { } batch && !startsRun && batch.IsHeldOpen(_openVersion) && !IsFull(batch, cost) ? batch : OpenForSlow(cost, header, startsRun, needsOrder, ref starts);

    private PendingBatch OpenForSlow(int cost, MessageHeader? header, bool startsRun, bool needsOrder, ref SenderStarts starts)
    {
        var batch = _open;
        if (batch is not null && batch.IsOpen(_openVersion))
        {
            var isFull = IsFull(batch, header is null ? cost : cost - batch.SharedBytesOf(header));
            if (!batch.IsQueued)
            {
                if (!isFull && (!startsRun || HasLastPlace(batch)))
                    return batch;
                HoldSealed(isFull ? FlushReason.BatchFull : FlushReason.Interleaved);
            }
            else if (!isFull && MayGrow(batch))
            {
                return batch;
            }
            else
            {
                if (isFull)
                    EndLingerOf(batch, ref starts);
                SealOpen(isFull ? FlushReason.BatchFull : FlushReason.Unscoped);
            }
        }

        return Open(Begin(), needsOrder);
    }

    /// <summary>Gives up the open batch when its first message could not be added.</summary>
    public void GiveUpIfEmpty()
    {
        if (_open is not { Count: 0 } empty)
            return;
        _open = null;
        empty.GiveUpEmpty();
    }

    /// <summary>Puts a latest value in the place of the one with its key that waits. It has negative bytes when there is no capacity for it, or its encoder failed.</summary>
    /// <returns>False when none waits that it may replace, or its batch is too full for a larger one: then it goes behind what waits.</returns>
    public bool TryReplace<TPayload>(scoped ref TPayload payload, MessageHeader? header, bool startsRun, out int bytes)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        bytes = -1;
        _latest ??= new LatestValues(handle, settings.GroupChanges);
        if (!_latest.TryFind(payload.Key, header, out var place))
            return false;
        var growth = place.Batch.FrameGrowthOf(place.Slot, payload.MaxBytes, header);
        if (growth > 0 && !place.Batch.MayGrowBy(growth, FindMaxBatchBytes()))
            return false;
        bytes = place.Batch.Replace(place.Slot, ref payload, header);

        // Also when the value is turned away: the scope has noted the handle as the one that was written last.
        if (startsRun)
            EndRun();
        if (bytes < 0)
            return true;
        CountAccepted(bytes);
        _supersededMessages++;
        if (BatchKitTracing.IsListening)
            place.Batch.Writers.RememberCurrent();
        return true;
    }

    /// <summary>What its flow writes next needs a batch behind what it wrote to other handles.</summary>
    public void EndRun()
    {
        if (HasOpen && !_open!.IsQueued && !HasLastPlace(_open))
            HoldSealed(FlushReason.Interleaved);
    }

    public void CountAccepted(int bytes)
    {
        _acceptedMessages++;
        _acceptedBytes += bytes;
    }

    /// <summary>Also without the lock, so each field is read once.</summary>
    public readonly HandleStatistics GetStatistics(int openScopes)
    {
        var open = _open;
        var held = _sealedMessages + (open is not null && open.IsHeldOpen(_openVersion) ? open.Count : 0);
        return new HandleStatistics(Volatile.Read(in _acceptedMessages), Volatile.Read(in _acceptedBytes), Volatile.Read(in _supersededMessages), held, openScopes);
    }

    /// <summary>Remembers the last message of the open batch as the latest value of its key.</summary>
    public void AddLatest(long key) => _latest!.Add(key, _open!);

    /// <summary>Queues the open batch as it is. It takes more messages while they overtake nothing, until its partition's sender seals it.</summary>
    public void QueueOpen(ref SenderStarts starts)
    {
        var batch = _open!;
        if (batch.IsQueued)
            return;
        EnterAndEnqueue(batch, isUnscoped: true, ref starts);

        // This caller starts the sender, and no one else adds to it: sealing it here saves taking the lock again.
        if (partitions.Length == 1 && starts.IsInline(partitions[0]))
        {
            batch.Close();
            _open = null;
            partitions[0].CountUnscoped();
        }
    }

    /// <summary>Queues all that is held, the open batch included, in one step, so that it leaves in one send.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void QueueAll(FlushReason reason, ref SenderStarts starts)
    {
        if (MayNeedQueueing)
            QueueAllSlow(reason, ref starts);
    }

    private void QueueAllSlow(FlushReason reason, ref SenderStarts starts)
    {
        if (HasOpen && _open!.IsQueued)
            SealOpen(reason);
        EndLinger(ref starts);
        if (_firstHeld is null)
        {
            // Most scopes held one batch.
            if (HasOpen)
                EnterAndEnqueue(SealOpen(reason), isUnscoped: false, ref starts);
            return;
        }

        if (HasOpen)
            HoldSealed(reason);
        var (first, last) = (_firstHeld!, _lastHeld!);
        ForgetHeld();
        for (var batch = first; batch is not null; batch = batch.NextHeld)
            Enter(batch);
        for (var route = 0; route < partitions.Length; route++)
        {
            var head = OutputRun.Link(first, route);
            starts.Add(partitions[route], partitions[route].Enqueue(head, last.Routes[route], isUnscoped: false));
        }
    }

    private readonly void EnterAndEnqueue(PendingBatch batch, bool isUnscoped, ref SenderStarts starts)
    {
        Enter(batch);
        for (var route = 0; route < partitions.Length; route++)
            starts.Add(partitions[route], partitions[route].Enqueue(batch.Routes[route], batch.Routes[route], isUnscoped));
    }

    /// <summary>Moves all that is held into a run of several handles' output.</summary>
    public void MoveInto(OutputRun run, FlushReason reason)
    {
        if (!HasHeld)
            return;
        if (HasOpen)
            HoldSealed(reason);
        var last = 0L;
        for (var batch = _firstHeld; batch is not null; batch = batch.NextHeld)
        {
            // A batch that was begun after the ambient scope had ended on this handle has no place, and goes behind those before it.
            last = batch.Order = Math.Max(batch.Order, last);
            Enter(batch);
            run.Add(batch, partitions);
        }

        ForgetHeld();
    }

    /// <summary>Gives what is held its place among the output of an ambient scope that begins to cover the handle.</summary>
    /// <remarks>It looks only at batches that have none yet: a handle that scopes hold for long may have many.</remarks>
    public void PlaceHeld()
    {
        for (var batch = _firstUnplaced; batch is not null; batch = batch.NextHeld)
            batch.Order = settings.NextOrder();
        _firstUnplaced = null;
        if (HasOpen && !_open!.IsQueued && _open.Order == 0)
            _open.Order = settings.NextOrder();
    }

    /// <summary>Takes out the oldest batch that is held. The caller settles it as dropped.</summary>
    public PendingBatch TakeOldestHeld()
    {
        if (_firstHeld is null)
            HoldSealed(FlushReason.ScopeClosed);
        var oldest = _firstHeld!;
        _firstHeld = oldest.NextHeld;
        _lastHeld = _firstHeld is null ? null : _lastHeld;
        if (ReferenceEquals(_firstUnplaced, oldest))
            _firstUnplaced = _firstHeld;
        oldest.NextHeld = null;
        _sealedMessages -= oldest.Count;
        oldest.EnsureSealed();
        oldest.Sequence = Settlement.Add();
        budget.Ages?.Remove(oldest, oldest.Version);
        return oldest;
    }

    /// <summary>Begins a batch that is not in the order of the handle's output yet.</summary>
    public PendingBatch Begin()
    {
        var batch = settings.Batches.Rent();
        batch.Open(gate, handle, Settlement, partitions.Length);
        budget.Ages?.AddHeld(batch);
        MaxBatchBytes = FindMaxBatchBytes();
        return batch;
    }

    /// <summary>Puts a writer's batch behind all that was written so far. What is written next joins it, unless it is full.</summary>
    public void Adopt(PendingBatch batch, bool needsOrder, FlushReason reason)
    {
        if (HasOpen && _open!.IsQueued)
            SealOpen(reason);
        else if (HasOpen)
            HoldSealed(reason);
        Open(batch, needsOrder);
        (_acceptedMessages, _acceptedBytes) = (_acceptedMessages + batch.Count, _acceptedBytes + batch.Bytes);
        settings.GroupChanges.Note(in batch.Memory, first: 0);
    }

    private PendingBatch Open(PendingBatch batch, bool needsOrder)
    {
        batch.Order = settings.DropsOldest || needsOrder ? settings.NextOrder() : 0;
        (_open, _openVersion) = (batch, batch.Version);
        return batch;
    }

    private readonly int FindMaxBatchBytes()
    {
        var maxBatchBytes = settings.MaxBatchBytes;
        foreach (var partition in partitions)
            maxBatchBytes = Math.Min(maxBatchBytes, partition.MaxBatchBytes - _nameBytes);
        return maxBatchBytes;
    }

    // Nothing that an ambient scope's flow wrote can be behind the batch that was given the last place of all.
    private readonly bool HasLastPlace(PendingBatch batch) => batch.Order != 0 && batch.Order == settings.LastOrder;

    // A message that is added to a batch may overtake what is queued behind it.
    private readonly bool MayGrow(PendingBatch batch)
    {
        var route = 0;
        while (route < partitions.Length && partitions[route].MayGrow(batch.Routes[route]))
            route++;
        return route == partitions.Length;
    }

    private readonly void Enter(PendingBatch batch)
    {
        batch.IsQueued = true;
        batch.QueuedAt = settings.Clock.Coarse;
        batch.Sequence = Settlement.Add();
        budget.Ages?.MoveToQueued(batch);
    }

    // A queued batch may be sent, settled and in another version as soon as it is sealed.
    private PendingBatch SealOpen(FlushReason reason)
    {
        var batch = _open!;
        _open = null;
        batch.Close();
        settings.Metrics.CountFlush(reason);
        return batch;
    }

    private readonly void EndLingerOf(PendingBatch batch, ref SenderStarts starts)
    {
        for (var route = 0; settings.Lingers && route < partitions.Length; route++)
            starts.Add(partitions[route], partitions[route].EndLinger(batch.Routes[route]));
    }

    private readonly void EndLinger(ref SenderStarts starts)
    {
        if (!settings.Lingers || Settlement.IsIdle)
            return;
        foreach (var partition in partitions)
            starts.Add(partition, partition.EndLinger());
    }

    // Seals the open batch and keeps it behind those that are held already.
    private void HoldSealed(FlushReason reason)
    {
        var batch = SealOpen(reason);
        if (_lastHeld is null)
            _firstHeld = batch;
        else
            _lastHeld.NextHeld = batch;
        _lastHeld = batch;
        if (batch.Order == 0)
            _firstUnplaced ??= batch;
        _sealedMessages += batch.Count;
    }

    private void ForgetHeld()
    {
        _firstHeld = _lastHeld = _firstUnplaced = null;
        _sealedMessages = 0;
    }
}
