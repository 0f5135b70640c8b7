namespace BatchKit.Batches;

/// <summary>The bytes of one handle that are accepted and not yet settled: at most its share, so that greedy handles, however many, can't take what others need.</summary>
/// <param name="route">The part of the capacity that the handle's routes have.</param>
/// <param name="settings">Has the share.</param>
internal sealed class HandleBudget(RouteBudget route, BufferSettings settings)
{
    // Guarded by the handle's lock.
    private long _taken;

    // Guarded by the settlement's lock, which each settled batch takes anyway.
    private long _returned;
    private long _underWay;
    private ShareQueue? _queue;

    public RouteBudget Route => route;

    /// <summary>The handle's batches that wait, the oldest first; guarded by the lock of the route's <see cref="BatchAges"/>, and null without them.</summary>
    public BatchList? Waiting { get; } = route.Ages is null ? null : new BatchList(ofHandle: true);

    /// <summary>How many writers wait for capacity; guarded by the handle's lock. The handle is kept meanwhile, so that later output stays behind theirs.</summary>
    public int Waits { get; set; }

    // What was returned is read first: then it can't pass what was taken.
    public long Pending => -Volatile.Read(ref _returned) + Volatile.Read(ref _taken);

    /// <summary>The most bytes that the handle may have now.</summary>
    public long Share => ShareOf(Pending, route.Free);

    /// <summary>While true, nothing is held back, so that capacity can become free.</summary>
    public bool HasWaiters => route.HasWaiters || route.IsSharedAwaited || _queue is { HasWaiters: true };

    /// <summary>True when the handle's share has no place for the bytes, whatever the route has.</summary>
    public bool IsUsedUp(long bytes)
    {
        var held = Pending + (_queue?.Promised ?? 0);

        // The message of a handle that has nothing needs only what the route has left: so the largest message always fits.
        return held > 0 && held + bytes > ShareOf(held, route.Free);
    }

    /// <summary>Reserves bytes of the share and of the route; call it under the handle's lock.</summary>
    public bool TryReserve(int bytes)
    {
        if (_queue is { IsInUse: true } || IsUsedUp(bytes) || !route.TryReserve(bytes))
            return false;
        Volatile.Write(ref _taken, _taken + bytes);
        return true;
    }

    /// <summary>True when the bytes could be reserved now; call it under the handle's lock.</summary>
    public bool HasRoomFor(int bytes)
    {
        if (!TryReserve(bytes))
            return false;
        ReturnUnused(bytes);
        return true;
    }

    /// <summary>Takes over what a writer that waited has reserved of the route; call it under the handle's lock.</summary>
    public void TakeOver(int bytes) => Volatile.Write(ref _taken, _taken + bytes);

    /// <summary>Returns what no message took; call it under the handle's lock.</summary>
    public void ReturnUnused(int bytes)
    {
        Volatile.Write(ref _taken, _taken - bytes);
        route.ReleaseUnused(bytes);
        GrantWaiters();
    }

    /// <summary>Counts what a settled batch had; call it under the settlement's lock, then <see cref="GrantWaiters"/> outside it.</summary>
    public void CountReturned(long bytes) => Volatile.Write(ref _returned, _returned + bytes);

    public void GrantWaiters()
    {
        if (_queue is not { } queue)
            return;
        // Between the store of what was returned and the load of who waits: a writer that begins to wait meanwhile finds the bytes, or is found here.
        Interlocked.MemoryBarrier();
        if (queue.HasWaiters)
            queue.GrantWaiters();
    }

    /// <summary>Counts bytes that a send has: dropping older output can't free them.</summary>
    public void AddUnderWay(long bytes)
    {
        Interlocked.Add(ref _underWay, bytes);
        route.AddUnderWay(bytes);
    }

    /// <summary>False when the bytes would not fit even if everything of the handle, and of its route, that waits were dropped.</summary>
    public bool CouldFit(long bytes)
    {
        var underWay = Volatile.Read(ref _underWay);
        return bytes <= route.MostFree && (underWay == 0 || underWay + bytes <= ShareOf(underWay, route.MostFree));
    }

    /// <summary>The writers that wait for the share.</summary>
    public ShareQueue Queue
    {
        get
        {
            if (_queue is null)
            {
                Interlocked.CompareExchange(ref _queue, new ShareQueue(this, settings.Scheduler), null);

                // A batch that is being settled may have found no queue: its bytes are seen from here on.
                Interlocked.MemoryBarrierProcessWide();
            }

            return _queue;
        }
    }

    public void FailWaiters(Exception error) => _queue?.FailWaiters(error);

    // Three times what stays free, unless the options name a number. With n greedy handles each has 3/(3n + 1) of the capacity, and 1/(3n + 1) is left for others.
    private long ShareOf(long held, long free) => settings.MaxHandleBytes ?? (held + free) / 4 * 3;

    /// <summary>The writers that wait for a handle's share. One at a time goes on to wait for its route's capacity, so that there a handle waits once, whatever waits for it here, and its order is kept.</summary>
    internal sealed class ShareQueue(HandleBudget budget, IDispatchScheduler scheduler) : CapacityQueue(scheduler, canPass: false, new Lock())
    {
        private long _promised;

        /// <summary>What writers have got of the share and have not written yet.</summary>
        public long Promised => Volatile.Read(ref _promised);

        /// <summary>True while a writer waits for the share or for the route: later output of the handle may not pass it.</summary>
        public bool IsInUse => HasWaiters || Promised != 0;

        /// <summary>The writer has written its message, which counts as pending now, or has given it up.</summary>
        public void Redeem(int bytes)
        {
            Return(bytes);
            GrantWaiters();
        }

        protected override bool TryTake(int bytes)
        {
            if (Promised != 0 || budget.IsUsedUp(bytes))
                return false;
            Interlocked.Add(ref _promised, bytes);
            return true;
        }

        protected override void Return(int bytes) => Interlocked.Add(ref _promised, -bytes);
    }
}
