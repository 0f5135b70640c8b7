namespace BatchKit.Batches;

/// <summary>Writers that wait for capacity, and get it in the order in which they came, except that small ones may pass a large one that has no place yet.</summary>
/// <remarks>While a writer at the front waits, others pass it with at most as many bytes as it needs itself. Until something is settled less than that is free, so whatever fits is written; and however many come, the front gets its turn.</remarks>
/// <param name="scheduler">Where their writers continue.</param>
/// <param name="canPass">False when the order of the writers is the order of the output.</param>
/// <param name="gate">Guards the waiters; queues for one capacity share it.</param>
internal abstract class CapacityQueue(IDispatchScheduler scheduler, bool canPass, Lock gate)
{
    // Waiters without a decision, and some that are decided but whose writers have not run yet.
    private readonly LinkedList<CapacityWaiter> _waiters = [];

    // The same ones, the smallest first: which of n may pass is found in log n steps.
    private readonly SortedSet<CapacityWaiter>? _bySize = canPass ? new SortedSet<CapacityWaiter>(CapacityWaiter.BySize) : null;
    private volatile int _waiting;
    private long _lastNumber;

    /// <summary>While true, nothing that could free this capacity is held back.</summary>
    public bool HasWaiters => _waiting != 0;

    /// <summary>How often a waiter was looked at: what waiting costs.</summary>
    public long Looks { get; private set; }

    /// <summary>Takes the bytes for the caller when they are free, and no other writer waits or those that wait may be passed.</summary>
    public bool TryReserveAtOnce(int bytes)
    {
        lock (gate)
        {
            if (_waiting == 0)
                return TryTake(bytes);
            if (_bySize is null)
                return false;
            var front = Front;
            if (front is { MayBePassed: var most } && bytes > most || !TryTake(bytes))
                return false;
            front?.CountPassed(bytes);
            return true;
        }
    }

    /// <summary>Counts bytes that had been taken and were returned before anything was sent: nothing passed with them.</summary>
    public void CountUnused(int bytes)
    {
        lock (gate)
            Front?.CountPassed(-bytes);
    }

    /// <summary>Completes when the bytes are taken for the caller, who then owns them.</summary>
    public async ValueTask ReserveAsync(int bytes, CancellationToken cancellationToken)
    {
        CapacityWaiter waiter;
        lock (gate)
        {
            waiter = new CapacityWaiter(bytes, ++_lastNumber, scheduler);
            waiter.Node = _waiters.AddLast(waiter);
            _bySize?.Add(waiter);
            _waiting++;
        }

        GrantWaiters();
        var registration = cancellationToken.UnsafeRegister(static (state, token) => ((CapacityWaiter)state!).TryRefuse(new OperationCanceledException(token)), waiter);
        try
        {
            await waiter.Task.ConfigureAwait(false);
        }
        finally
        {
            await registration.DisposeAsync().ConfigureAwait(false);
            Forget(waiter);
        }
    }

    /// <summary>Ends every wait with an error.</summary>
    public void FailWaiters(Exception error)
    {
        lock (gate)
        {
            foreach (var waiter in _waiters)
                waiter.TryRefuse(error);
        }
    }

    public virtual void GrantWaiters()
    {
        lock (gate)
        {
            while (TryGiveFront())
                continue;
            while (_waiters.First is { Value: var front } && _bySize?.Min is { } least && least != front && least.Bytes <= front.MayBePassed && TryGive(least, front))
                continue;
        }
    }

    /// <summary>The writer whose turn is next; null when no one waits. Call it under the gate.</summary>
    public CapacityWaiter? Front
    {
        get
        {
            while (_waiters.First is { Value: { IsDecided: true } decided })
                Remove(decided);
            return _waiters.First?.Value;
        }
    }

    /// <summary>Gives the writer at the front what it needs; call it under the gate.</summary>
    /// <returns>False when it has no place yet, or no one waits.</returns>
    public bool TryGiveFront() => _waiters.First is { Value: var front } && TryGive(front, passed: null);

    /// <summary>Takes capacity, whoever waits.</summary>
    /// <returns>False when there is not enough.</returns>
    protected abstract bool TryTake(int bytes);

    /// <summary>Returns capacity that was taken for a waiter whose wait had ended.</summary>
    protected abstract void Return(int bytes);

    /// <returns>False when it has no place yet; true when it is no longer in the queue.</returns>
    private bool TryGive(CapacityWaiter waiter, CapacityWaiter? passed)
    {
        Looks++;
        if (!waiter.IsDecided)
        {
            if (!TryTake(waiter.Bytes))
                return false;
            if (waiter.TryGrant())
                passed?.CountPassed(waiter.Bytes);
            else
                Return(waiter.Bytes);
        }

        Remove(waiter);
        return true;
    }

    // A waiter counts until its writer runs again, so that no other writer takes its turn in between.
    private void Forget(CapacityWaiter waiter)
    {
        lock (gate)
        {
            Remove(waiter);
            _waiting--;
        }

        GrantWaiters();
    }

    // By its node: a search by value would make each of n cancelled waits cost n.
    private void Remove(CapacityWaiter waiter)
    {
        if (waiter.Node is null)
            return;
        _waiters.Remove(waiter.Node);
        _bySize?.Remove(waiter);
        waiter.Node = null;
    }
}

/// <summary>A writer that waits for capacity. It continues where senders run, never on the thread that freed the capacity or cancelled the wait.</summary>
/// <param name="bytes">What it needs.</param>
/// <param name="number">Higher than that of those who came before.</param>
/// <param name="scheduler">Where it continues.</param>
internal sealed class CapacityWaiter(int bytes, long number, IDispatchScheduler scheduler) : IThreadPoolWorkItem
{
    // Guarded by the queue's gate.
    private long _passed;

    private readonly TaskCompletionSource _decision = new();
    private Exception? _refusal;
    private int _isDecided;

    /// <summary>The smallest first, and of equal ones the one that came first.</summary>
    public static Comparer<CapacityWaiter> BySize { get; } = Comparer<CapacityWaiter>.Create(
        static (one, other) => one.Bytes != other.Bytes ? one.Bytes.CompareTo(other.Bytes) : one.Number.CompareTo(other.Number));

    public int Bytes { get; } = bytes;

    public long Number { get; } = number;

    /// <summary>How many bytes others may still take while it waits at the front.</summary>
    public long MayBePassed => Bytes - _passed;

    /// <summary>Its place in the list of waiters, guarded by the queue's gate; null once it was removed.</summary>
    public LinkedListNode<CapacityWaiter>? Node { get; set; }

    public Task Task => _decision.Task;

    public bool IsDecided => Volatile.Read(ref _isDecided) != 0;

    public void CountPassed(long bytes) => _passed = Math.Max(0, _passed + bytes);

    /// <returns>False when the wait had ended already.</returns>
    public bool TryGrant() => TryDecide(refusal: null);

    /// <inheritdoc cref="TryGrant"/>
    public bool TryRefuse(Exception refusal) => TryDecide(refusal);

    void IThreadPoolWorkItem.Execute()
    {
        if (_refusal is OperationCanceledException cancellation)
            _decision.SetCanceled(cancellation.CancellationToken);
        else if (_refusal is not null)
            _decision.SetException(_refusal);
        else
            _decision.SetResult();
    }

    private bool TryDecide(Exception? refusal)
    {
        if (Interlocked.Exchange(ref _isDecided, 1) != 0)
            return false;
        _refusal = refusal;
        scheduler.Schedule(this);
        return true;
    }
}
