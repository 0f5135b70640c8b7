namespace BatchKit.Batches;

/// <summary>The bytes that are accepted and not yet settled. Each route has a part of the capacity that others can't take; what it needs above it comes from the half that all routes share.</summary>
/// <remarks>
/// Output for several routes has one part more, so that a route that is away holds up neither what others carry alone nor the reverse. With one route there is one part: all of it.
/// One part after another has a turn for the writer that waits at its front: until that one has its place, the others take no more of the shared half than may pass it.
/// </remarks>
internal sealed class ByteBudget
{
    private long _shared;

    // Guards the fields below it, and those that wait for any part.
    private readonly Lock _gate = new();
    private volatile RouteBudget? _turn;
    private CapacityWaiter? _next;
    private volatile bool _isSharedAwaited;

    /// <summary>Divides a capacity.</summary>
    /// <param name="capacity">All bytes.</param>
    /// <param name="routes">How many routes there are.</param>
    /// <param name="scheduler">Where writers that waited continue.</param>
    /// <param name="dropsOldest">True when older output is dropped for newer: then each part knows the age of what waits.</param>
    /// <param name="largest">What the largest message takes. A part and what they share have place for it, or its writer would wait for ever, and others behind it.</param>
    public ByteBudget(long capacity, int routes, IDispatchScheduler scheduler, bool dropsOldest, long largest = 0)
    {
        Capacity = capacity;
        var parts = routes == 1 ? 1 : routes + 1;
        var own = parts == 1 ? capacity : Math.Min(capacity / 2 / parts, Math.Max(0, capacity - largest) / (parts - 1));
        MostForOne = capacity - (own * (parts - 1));
        SharedCapacity = capacity - (own * parts);
        Parts = [.. Enumerable.Range(0, parts).Select(index => new RouteBudget(this, index, own, scheduler, _gate, dropsOldest ? new BatchAges() : null))];
    }

    public long Capacity { get; }

    /// <summary>The most that one message can take.</summary>
    public long MostForOne { get; }

    /// <summary>What no part has alone.</summary>
    public long SharedCapacity { get; }

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

    /// <summary>How much each route has left, for a sentence; empty with one route.</summary>
    public string DescribeLeft() => Parts.Length == 1 ? string.Empty : $", and its routes have {string.Join(", ", Parts.Select(static part => part.Free))} left";

    /// <summary>What is left of the shared half.</summary>
    public long SharedLeft => SharedCapacity - Volatile.Read(ref _shared);

    /// <summary>While true, a writer waits that needs what others have of the shared half: nothing that could free it is held back.</summary>
    public bool IsSharedAwaited => _isSharedAwaited;

    public bool TryTakeShared(long bytes, RouteBudget taker)
    {
        if (_turn is null || _turn == taker)
            return TryTakeShared(bytes);
        lock (_gate)
        {
            if (_turn is null || _turn == taker)
                return TryTakeShared(bytes);
            if (bytes > _next!.MayBePassed || !TryTakeShared(bytes))
                return false;
            _next.CountPassed(bytes);
            return true;
        }
    }

    public void ReturnShared(long bytes) => Interlocked.Add(ref _shared, -bytes);

    /// <summary>Counts shared bytes that were returned before anything was sent: nothing passed with them.</summary>
    public void CountUnused(long bytes, RouteBudget taker)
    {
        if (_turn is null || _turn == taker)
            return;
        lock (_gate)
            _next?.CountPassed(-bytes);
    }

    /// <summary>Gives what became free to those that wait, whichever route they wait for.</summary>
    public void GrantWaiters()
    {
        // Every settled batch asks, and mostly no one waits.
        if (_turn is null && !Array.Exists(Parts, static part => part.HasWaiters))
            return;
        lock (_gate)
        {
            do
                MoveTurn();
            while (_turn is { } turn && turn.TryGiveFront());
            foreach (var part in Parts)
            {
                if (part.HasWaiters)
                    part.GrantFitting();
            }
        }
    }

    /// <summary>Ends every wait with an error: the buffer has stopped.</summary>
    public void FailWaiters(Exception error)
    {
        foreach (var part in Parts)
            part.FailWaiters(error);
    }

    // The turn stays with a writer until it has its place or waits no more. One whose own route has too much has none yet: what others free would not help it.
    private void MoveTurn()
    {
        if (_turn is { } current && current.Front == _next && current.CanServe(_next!))
            return;
        var last = _turn?.Index ?? -1;
        (_turn, _next, _isSharedAwaited) = (null, null, false);
        for (var step = 1; step <= Parts.Length; step++)
        {
            var part = Parts[(last + step) % Parts.Length];
            if (part.Front is not { } front || !part.CanServe(front))
                continue;
            (_next, _isSharedAwaited, _turn) = (front, !part.IsEnoughFor(front.Bytes), part);
            return;
        }
    }

    private bool TryTakeShared(long bytes)
    {
        var seen = Volatile.Read(ref _shared);
        while (bytes <= SharedCapacity - seen)
        {
            var before = Interlocked.CompareExchange(ref _shared, seen + bytes, seen);
            if (before == seen)
                return true;
            seen = before;
        }

        return false;
    }
}

/// <summary>One route's part of the capacity. Writers that wait for it get it in the order in which they came.</summary>
/// <param name="budget">The whole.</param>
/// <param name="index">Which part it is.</param>
/// <param name="own">The bytes that no other part can take.</param>
/// <param name="scheduler">Where writers that waited continue.</param>
/// <param name="gate">Guards those that wait for any part.</param>
/// <param name="ages">Knows which batch is the oldest; null when the policy drops none.</param>
internal sealed class RouteBudget(ByteBudget budget, int index, long own, IDispatchScheduler scheduler, Lock gate, BatchAges? ages) : CapacityQueue(scheduler, canPass: true, gate)
{
    private long _reserved;
    private long _underWay;

    public int Index => index;

    public BatchAges? Ages => ages;

    public long Reserved => Volatile.Read(ref _reserved);

    /// <inheritdoc cref="ByteBudget.IsSharedAwaited"/>
    public bool IsSharedAwaited => budget.IsSharedAwaited;

    /// <summary>The bytes that it can have while no other has any of the shared half.</summary>
    public long Most => own + budget.SharedCapacity;

    /// <summary>The bytes that are left for it now.</summary>
    public long Free => budget.SharedLeft + Math.Max(0, own - Reserved);

    /// <summary>The bytes that would be left for it if everything that waits for it were dropped.</summary>
    public long MostFree => own + budget.SharedLeft + SharedOf(Reserved) - Volatile.Read(ref _underWay);

    /// <summary>While others wait for the same route, only as many bytes as may pass them can be taken, so that they are not starved.</summary>
    public bool TryReserve(int bytes) => HasWaiters ? TryReserveAtOnce(bytes) : TryTake(bytes);

    public void Release(long bytes) => GrantAfter(Give(bytes));

    /// <summary>Returns bytes that had been taken and with which nothing was sent.</summary>
    public void ReleaseUnused(int bytes)
    {
        if (HasWaiters)
            CountUnused(bytes);
        var shared = Give(bytes);
        budget.CountUnused(shared, this);
        GrantAfter(shared);
    }

    public override void GrantWaiters() => budget.GrantWaiters();

    /// <summary>Gives what is free for this part to those that wait for it; call it under the gate.</summary>
    public void GrantFitting() => base.GrantWaiters();

    /// <summary>True when the writer has a place once other routes have returned what they took of the shared half; call it under the gate.</summary>
    public bool CanServe(CapacityWaiter waiter) => waiter.Bytes <= own + budget.SharedCapacity - Reserved;

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
            if (shared > 0 && !budget.TryTakeShared(shared, this))
                return false;
            var before = Interlocked.CompareExchange(ref _reserved, seen + bytes, seen);
            if (before == seen)
                return true;
            if (shared > 0)
            {
                budget.ReturnShared(shared);
                budget.CountUnused(shared, this);
            }

            seen = before;
        }
    }

    protected override void Return(int bytes) => Give(bytes);

    // Returns how much of it went to the shared half.
    private long Give(long bytes)
    {
        var left = Interlocked.Add(ref _reserved, -bytes);
        var shared = SharedOf(left + bytes) - SharedOf(left);
        if (shared != 0)
            budget.ReturnShared(shared);
        return shared;
    }

    private void GrantAfter(long shared)
    {
        if (shared != 0 || HasWaiters)
            budget.GrantWaiters();
    }

    private long SharedOf(long reserved) => Math.Max(0, reserved - own);
}
