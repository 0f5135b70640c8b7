namespace BatchKit.Dispatch;

/// <summary>How much of a handle's output is settled; what its flushes wait for.</summary>
internal sealed class HandleSettlement
{
    // Held for a few instructions, and for every batch: a Lock takes 6 ns of an unscoped write's 100.
    private SpinLock _gate = new(enableThreadOwnerTracking: false);

    // Guarded by the handle's lock.
    private long _queued;

    // Guarded by _gate.
    private long _settled;
    private List<FlushWaiter>? _waiters;

    /// <summary>True when every batch that was queued is settled. Exact only under the handle's lock.</summary>
    public bool IsIdle => Volatile.Read(ref _settled) == _queued;

    /// <summary>Counts a batch that is being queued; call it under the handle's lock.</summary>
    /// <returns>The batch's place.</returns>
    public long Add() => ++_queued;

    public void Settle(long sequence, long lostMessages, Exception? failure)
    {
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            Volatile.Write(ref _settled, _settled + 1);
            if (_waiters is not null)
                Notify(_waiters, sequence, lostMessages, failure);
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    /// <summary>Waits for all that was queued so far; call it under the handle's lock.</summary>
    /// <returns>Null when there is nothing to wait for.</returns>
    public FlushWaiter? Wait()
    {
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            if (_settled == _queued)
                return null;
            var waiter = new FlushWaiter(_queued, _queued - _settled);
            (_waiters ??= []).Add(waiter);
            return waiter;
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    // Their continuations run on the pool, so nothing foreign is called under the lock.
    private void Notify(List<FlushWaiter> waiters, long sequence, long lostMessages, Exception? failure)
    {
        foreach (var waiter in waiters)
            waiter.OnSettled(sequence, lostMessages, failure);
        waiters.RemoveAll(static waiter => waiter.Task.IsCompleted);
        if (waiters.Count == 0)
            _waiters = null;
    }
}
