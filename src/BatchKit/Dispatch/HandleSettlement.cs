namespace BatchKit.Dispatch;

/// <summary>How much of a handle's output is settled; what its flushes wait for.</summary>
internal sealed class HandleSettlement
{
    private readonly Lock _gate = new();

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
        lock (_gate)
        {
            Volatile.Write(ref _settled, _settled + 1);
            if (_waiters is null)
                return;
            foreach (var waiter in _waiters)
                waiter.OnSettled(sequence, lostMessages, failure);
            _waiters.RemoveAll(static waiter => waiter.Task.IsCompleted);
            if (_waiters.Count == 0)
                _waiters = null;
        }
    }

    /// <summary>Waits for all that was queued so far; call it under the handle's lock.</summary>
    /// <returns>Null when there is nothing to wait for.</returns>
    public FlushWaiter? Wait()
    {
        lock (_gate)
        {
            if (_settled == _queued)
                return null;
            var waiter = new FlushWaiter(_queued, _queued - _settled);
            (_waiters ??= []).Add(waiter);
            return waiter;
        }
    }
}
