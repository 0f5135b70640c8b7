namespace BatchKit.Batches;

/// <summary>Writers that wait for capacity, and get it in the order in which they came.</summary>
/// <param name="scheduler">Where their writers continue.</param>
internal abstract class CapacityQueue(IDispatchScheduler scheduler)
{
    private readonly Lock _gate = new();

    // Waiters without a decision, and some that are decided but whose writers have not run yet.
    private readonly LinkedList<CapacityWaiter> _waiters = [];
    private volatile int _waiting;

    /// <summary>While true, nothing that could free this capacity is held back.</summary>
    public bool HasWaiters => _waiting != 0;

    /// <summary>How often a waiter was looked at: what waiting costs.</summary>
    public long Looks { get; private set; }

    /// <summary>Takes the bytes for the caller when no other writer waits and they are free.</summary>
    public bool TryReserveAtOnce(int bytes)
    {
        lock (_gate)
            return _waiting == 0 && TryTake(bytes);
    }

    /// <summary>Completes when the bytes are taken for the caller, who then owns them.</summary>
    public async ValueTask ReserveAsync(int bytes, CancellationToken cancellationToken)
    {
        var waiter = new CapacityWaiter(bytes, scheduler);
        lock (_gate)
        {
            waiter.Node = _waiters.AddLast(waiter);
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
        lock (_gate)
        {
            foreach (var waiter in _waiters)
                waiter.TryRefuse(error);
        }
    }

    public void GrantWaiters()
    {
        lock (_gate)
        {
            while (_waiters.First is { Value: var waiter })
            {
                Looks++;
                if (!waiter.IsDecided)
                {
                    if (!TryTake(waiter.Bytes))
                        return;
                    if (!waiter.TryGrant())
                        Return(waiter.Bytes);
                }

                Remove(waiter);
            }
        }
    }

    /// <summary>Takes capacity, whoever waits.</summary>
    /// <returns>False when there is not enough.</returns>
    protected abstract bool TryTake(int bytes);

    /// <summary>Returns capacity that was taken for a waiter whose wait had ended.</summary>
    protected abstract void Return(int bytes);

    // A waiter counts until its writer runs again, so that no other writer takes its turn in between.
    private void Forget(CapacityWaiter waiter)
    {
        lock (_gate)
        {
            Remove(waiter);
            _waiting--;
        }

        if (_waiting != 0)
            GrantWaiters();
    }

    // By its node: a search by value would make each of n cancelled waits cost n.
    private void Remove(CapacityWaiter waiter)
    {
        if (waiter.Node is null)
            return;
        _waiters.Remove(waiter.Node);
        waiter.Node = null;
    }
}

/// <summary>A writer that waits for capacity. It continues where senders run, never on the thread that freed the capacity or cancelled the wait.</summary>
internal sealed class CapacityWaiter(int bytes, IDispatchScheduler scheduler) : IThreadPoolWorkItem
{
    private readonly TaskCompletionSource _decision = new();
    private Exception? _refusal;
    private int _isDecided;

    public int Bytes { get; } = bytes;

    /// <summary>Its place in the list of waiters, guarded by the queue's gate; null once it was removed.</summary>
    public LinkedListNode<CapacityWaiter>? Node { get; set; }

    public Task Task => _decision.Task;

    public bool IsDecided => Volatile.Read(ref _isDecided) != 0;

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
