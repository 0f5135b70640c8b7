namespace BatchKit.Dispatch;

/// <summary>How much of a handle's output is settled; what its flushes wait for.</summary>
internal sealed class HandleSettlement
{
    // Held for a few instructions, and for every batch: a Lock takes 6 ns of an unscoped write's 100. Waiters' continuations run on the pool, so nothing
    // foreign is called under it.
    private SpinLock _gate = new(enableThreadOwnerTracking: false);

    // Guarded by the handle's lock.
    private long _queued;

    // Guarded by _gate.
    private long _settled;
    private List<FlushWaiter>? _waiters;
    private FlushWaiter? _spare;

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
            if (_waiters is { Count: > 0 })
                Notify(_waiters, sequence, lostMessages, failure);
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    /// <summary>
    /// Begins to wait for all that was queued so far. Call it under the handle's lock, before a sender is started: an inline one may settle, and lose,
    /// everything before its caller looks again.
    /// </summary>
    /// <returns>Null when there is nothing to wait for; else give it to <see cref="EndWait"/>.</returns>
    public FlushWaiter? BeginWait()
    {
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            if (_settled == _queued)
                return null;
            var waiter = _spare ?? new FlushWaiter();
            _spare = null;
            waiter.Begin(_queued, _queued - _settled);
            (_waiters ??= []).Add(waiter);
            return waiter;
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    /// <summary>Completes when what the waiter counts is settled, and fails when some of it was lost.</summary>
    /// <param name="waiter">What <see cref="BeginWait"/> returned.</param>
    /// <param name="isInsideSend">Completes at once, because the send that it would wait for could not end otherwise.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public ValueTask EndWait(FlushWaiter waiter, bool isInsideSend, CancellationToken cancellationToken)
    {
        OutputDeliveryException? error = null;
        Task? completion = null;
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            if (!waiter.IsDone && !isInsideSend)
            {
                completion = waiter.WhenDoneAsync();
            }
            else
            {
                error = waiter.IsDone ? waiter.Error : null;
                _waiters!.Remove(waiter);
                _spare = waiter;
            }
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }

        if (completion is not null)
            return new ValueTask(completion.WaitAsync(cancellationToken));
        return error is null ? default : ValueTask.FromException(error);
    }

    private static void Notify(List<FlushWaiter> waiters, long sequence, long lostMessages, Exception? failure)
    {
        foreach (var waiter in waiters)
            waiter.OnSettled(sequence, lostMessages, failure);
        waiters.RemoveAll(static waiter => waiter.IsDone);
    }
}
