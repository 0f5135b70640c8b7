namespace BatchKit.Batches;

/// <summary>The bytes that are accepted and not yet settled. Each route has a part of the capacity that others can't take; what it needs above it comes from the half that all routes share.</summary>
/// <remarks>Output for several routes has one part more, so that a route that is away holds up neither what others carry alone nor the reverse. With one route there is one part: all of it.</remarks>
internal sealed class ByteBudget
{
    private readonly long _sharedCapacity;
    private long _shared;

    /// <summary>Divides a capacity.</summary>
    /// <param name="capacity">All bytes.</param>
    /// <param name="routes">How many routes there are.</param>
    /// <param name="scheduler">Where writers that waited continue.</param>
    /// <param name="dropsOldest">True when older output is dropped for newer: then each part knows the age of what waits.</param>
    public ByteBudget(long capacity, int routes, IDispatchScheduler scheduler, bool dropsOldest)
    {
        Capacity = capacity;
        var parts = routes == 1 ? 1 : routes + 1;
        var own = parts == 1 ? capacity : capacity / 2 / parts;
        _sharedCapacity = capacity - (own * parts);
        Parts = [.. Enumerable.Range(0, parts).Select(index => new RouteBudget(this, index, own, scheduler, dropsOldest ? new BatchAges() : null))];
    }

    public long Capacity { get; }

    /// <summary>The routes' parts, in their order. Behind them, where there are several routes, the part of the output that takes more than one.</summary>
    public RouteBudget[] Parts { get; }

    public long Reserved
    {
        get
        {
            var reserved = 0L;
            foreach (var part in Parts)
                reserved += part.Reserved;
            return reserved;
        }
    }

    /// <summary>What is left of the shared half.</summary>
    public long SharedLeft => _sharedCapacity - Volatile.Read(ref _shared);

    public bool TryTakeShared(long bytes)
    {
        var seen = Volatile.Read(ref _shared);
        while (bytes <= _sharedCapacity - seen)
        {
            var before = Interlocked.CompareExchange(ref _shared, seen + bytes, seen);
            if (before == seen)
                return true;
            seen = before;
        }

        return false;
    }

    public void ReturnShared(long bytes) => Interlocked.Add(ref _shared, -bytes);

    /// <summary>Gives shared bytes that became free to those that wait, whichever route they wait for.</summary>
    public void GrantWaiters()
    {
        foreach (var part in Parts)
        {
            if (part.HasWaiters)
                part.GrantWaiters();
        }
    }

    /// <summary>Ends every wait with an error: the buffer has stopped.</summary>
    public void FailWaiters(Exception error)
    {
        foreach (var part in Parts)
            part.FailWaiters(error);
    }
}

/// <summary>One route's part of the capacity. Writers that wait for it get it in the order in which they came.</summary>
/// <param name="budget">The whole.</param>
/// <param name="index">Which part it is.</param>
/// <param name="own">The bytes that no other part can take.</param>
/// <param name="scheduler">Where writers that waited continue.</param>
/// <param name="ages">Knows which batch is the oldest; null when the policy drops none.</param>
internal sealed class RouteBudget(ByteBudget budget, int index, long own, IDispatchScheduler scheduler, BatchAges? ages) : CapacityQueue(scheduler, canPass: true)
{
    private long _reserved;
    private long _underWay;

    public int Index => index;

    public BatchAges? Ages => ages;

    public long Reserved => Volatile.Read(ref _reserved);

    /// <summary>The bytes that are left for it now.</summary>
    public long Free => budget.SharedLeft + Math.Max(0, own - Reserved);

    /// <summary>The bytes that would be left for it if everything that waits for it were dropped.</summary>
    public long MostFree => own + budget.SharedLeft + SharedOf(Reserved) - Volatile.Read(ref _underWay);

    /// <summary>While others wait for the same route, only as many bytes as may pass them can be taken, so that they are not starved.</summary>
    public bool TryReserve(int bytes) => HasWaiters ? TryReserveAtOnce(bytes) : TryTake(bytes);

    public void Release(long bytes)
    {
        var left = Interlocked.Add(ref _reserved, -bytes);
        var shared = SharedOf(left + bytes) - SharedOf(left);
        if (shared != 0)
        {
            budget.ReturnShared(shared);
            budget.GrantWaiters();
        }
        else if (HasWaiters)
        {
            GrantWaiters();
        }
    }

    /// <summary>True when a message that waits for this part can get it from the part's own bytes alone, whatever other routes do.</summary>
    public bool IsEnoughFor(int bytes) => bytes <= own;

    /// <summary>Counts bytes that a send has: dropping older output can't free them.</summary>
    public void AddUnderWay(long bytes) => Interlocked.Add(ref _underWay, bytes);

    protected override bool TryTake(int bytes)
    {
        var seen = Volatile.Read(ref _reserved);
        while (true)
        {
            var shared = SharedOf(seen + bytes) - SharedOf(seen);
            if (shared > 0 && !budget.TryTakeShared(shared))
                return false;
            var before = Interlocked.CompareExchange(ref _reserved, seen + bytes, seen);
            if (before == seen)
                return true;
            if (shared > 0)
                budget.ReturnShared(shared);
            seen = before;
        }
    }

    protected override void Return(int bytes)
    {
        var left = Interlocked.Add(ref _reserved, -bytes);
        budget.ReturnShared(SharedOf(left + bytes) - SharedOf(left));
    }

    private long SharedOf(long reserved) => Math.Max(0, reserved - own);
}
