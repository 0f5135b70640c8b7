namespace BatchKit.Dispatch;

/// <summary>The bytes that may be accepted and not yet settled; those who wait for room get it in the order they came.</summary>
internal sealed class ByteBudget(long capacity, IDispatchScheduler scheduler)
{
    private readonly Lock _gate = new();
    private readonly LinkedList<RoomWaiter> _waiters = [];
    private long _reserved;
    private volatile int _waiting;

    public long Reserved => Volatile.Read(ref _reserved);

    public long Capacity => capacity;

    /// <summary>While true, nothing is held back, so that the room can come free.</summary>
    public bool HasWaiters => _waiting != 0;

    /// <summary>Fails while others wait, so that they are not starved.</summary>
    public bool TryReserve(int bytes) => _waiting == 0 && TryTake(bytes);

    public void Release(long bytes)
    {
        Interlocked.Add(ref _reserved, -bytes);
        if (_waiting != 0)
            GrantWaiters();
    }

    /// <summary>Completes when the bytes are reserved for the caller, who then owns them.</summary>
    public async ValueTask ReserveAsync(int bytes, CancellationToken cancellationToken)
    {
        var waiter = new RoomWaiter(bytes, scheduler);
        lock (_gate)
        {
            _waiters.AddLast(waiter);
            _waiting++;
        }

        GrantWaiters();
        var registration = cancellationToken.UnsafeRegister(static (state, token) => ((RoomWaiter)state!).TryRefuse(new OperationCanceledException(token)), waiter);
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

    /// <summary>Ends every wait with an error: the buffer has stopped.</summary>
    public void FailWaiters(Exception error)
    {
        lock (_gate)
        {
            foreach (var waiter in _waiters)
                waiter.TryRefuse(error);
        }
    }

    private bool TryTake(int bytes)
    {
        var seen = Volatile.Read(ref _reserved);
        while (bytes <= capacity - seen)
        {
            var before = Interlocked.CompareExchange(ref _reserved, seen + bytes, seen);
            if (before == seen)
                return true;
            seen = before;
        }

        return false;
    }

    private void GrantWaiters()
    {
        lock (_gate)
        {
            for (var node = _waiters.First; node is not null; node = node.Next)
            {
                if (node.Value.IsDecided)
                    continue;
                if (!TryTake(node.Value.Bytes))
                    return;
                if (!node.Value.TryGrant())
                    Interlocked.Add(ref _reserved, -node.Value.Bytes);
            }
        }
    }

    // A waiter counts until its writer is awake again, so that nobody takes its turn in between.
    private void Forget(RoomWaiter waiter)
    {
        lock (_gate)
        {
            if (_waiters.Remove(waiter))
                _waiting--;
        }

        if (_waiting != 0)
            GrantWaiters();
    }
}
