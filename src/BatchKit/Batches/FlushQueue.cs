namespace BatchKit.Batches;

/// <summary>
/// The flushes that wait on one handle, in the order of their places. A settled batch counts down only the first flush that waits for it. A flush is done when it and all
/// before it have counted down to zero. So a batch costs log n, however many flushes wait for it. Guarded by the settlement's lock.
/// </summary>
internal sealed class FlushQueue
{
    // A burst's memory is not kept; this many waiters cost half a kilobyte.
    private const int MaxKept = 64;

    private readonly List<FlushWaiter?> _waiters = [];
    private int _first;
    private long _awaited;

    public bool IsEmpty => _first == _waiters.Count;

    /// <summary>How often a waiter was looked at: what the queue costs.</summary>
    public long Looks { get; private set; }

    /// <summary>Adds a flush behind those that wait.</summary>
    /// <param name="waiter">Waits for a place that is not before that of any other.</param>
    /// <param name="unsettled">How many batches up to its place are not settled; at least one.</param>
    public void Add(FlushWaiter waiter, long unsettled)
    {
        waiter.Remaining = unsettled - _awaited;
        _awaited = unsettled;
        _waiters.Add(waiter);
    }

    /// <summary>Counts a settled batch.</summary>
    /// <returns>The flushes that this batch completes and whose callers wait, chained in their order; null for none.</returns>
    public FlushWaiter? CountDown(long sequence)
    {
        var index = FindFirst(sequence);
        if (index == _waiters.Count)
            return null;
        _waiters[index]!.Remaining--;
        _awaited--;

        FlushWaiter? first = null;
        FlushWaiter? last = null;
        while (!IsEmpty && _waiters[_first]!.Remaining == 0)
        {
            var waiter = RemoveFirst();
            waiter.IsDone = true;
            if (!waiter.IsAwaited)
                continue;
            if (last is null)
                first = waiter;
            else
                last.Next = waiter;
            last = waiter;
        }

        Compact();
        return first;
    }

    /// <summary>Removes a flush that no caller waits for, and those before it that were given up.</summary>
    /// <returns>False when others wait behind it; it then stays until it is the last, or done.</returns>
    public bool TryRemoveLast(FlushWaiter waiter)
    {
        if (IsEmpty || _waiters[^1] != waiter)
            return false;
        do
            RemoveLast();
        while (!IsEmpty && _waiters[^1]!.IsGivenUp);
        Compact();
        return true;
    }

    private int FindFirst(long sequence)
    {
        var (low, high) = (_first, _waiters.Count);
        while (low < high)
        {
            Looks++;
            var middle = (int)(((uint)low + (uint)high) / 2);
            if (_waiters[middle]!.Through < sequence)
                low = middle + 1;
            else
                high = middle;
        }

        return low;
    }

    private void RemoveLast()
    {
        _awaited -= _waiters[^1]!.Remaining;
        _waiters.RemoveAt(_waiters.Count - 1);
    }

    private FlushWaiter RemoveFirst()
    {
        Looks++;
        var waiter = _waiters[_first]!;
        _waiters[_first++] = null;
        return waiter;
    }

    // Moves the rest only when it is the smaller part, so that a waiter is moved about once.
    private void Compact()
    {
        if (IsEmpty)
        {
            _waiters.Clear();
            _first = 0;
            if (_waiters.Capacity > MaxKept)
                _waiters.Capacity = 0;
        }
        else if (_first > MaxKept && _first > _waiters.Count - _first)
        {
            _waiters.RemoveRange(0, _first);
            _first = 0;
        }
    }
}

/// <summary>Which losses a wait reports.</summary>
internal enum ReportedLosses
{
    /// <summary>Those of messages that were written in a scope, even when they were lost before it closed.</summary>
    OfScope,

    /// <summary>All that were not reported before the wait began: what was lost since the previous flush.</summary>
    Unreported,

    /// <summary>Those that happen while it waits.</summary>
    OfWait,

    /// <summary>Those that happened after a moment of the buffer. A nested ambient scope reports these.</summary>
    AfterMoment,
}

/// <summary>A flush, or the end of a scope, that waits for the batches queued before it. Reused by its handle; guarded by the settlement's lock.</summary>
internal sealed class FlushWaiter
{
    private ReportedLosses _reports;
    private long _since;
    private long _heldSince;
    private long _began;
    private TaskCompletionSource? _completion;

    /// <summary>True when all that it waits for is settled.</summary>
    public bool IsDone { get; set; }

    public bool IsAwaited => _completion is not null;

    /// <summary>True when its caller no longer waits: it reports nothing, so that the next flush reports what was lost.</summary>
    public bool IsGivenUp { get; private set; }

    /// <summary>The last place that it waits for.</summary>
    public long Through { get; private set; }

    /// <summary>How many batches between the place of the previous flush and its own are not settled.</summary>
    public long Remaining { get; set; }

    /// <summary>The next flush that is done at the same time.</summary>
    public FlushWaiter? Next { get; set; }

    /// <summary>What its caller learns when it is done; null when nothing was lost.</summary>
    public LossReport? Loss { get; set; }

    public void Begin(ReportedLosses reports, long since, long heldSince, long through, bool isDone, long began)
    {
        _reports = reports;
        _since = since;
        _heldSince = heldSince;
        _began = began;
        _completion = null;
        IsGivenUp = false;
        Through = through;
        IsDone = isDone;
    }

    public bool Reports(long sequence, long lostAt, long reportedAt, long moment) => _reports switch
    {
        ReportedLosses.OfScope => sequence > _since || (sequence > _heldSince && (reportedAt == 0 || reportedAt > _began)),
        ReportedLosses.Unreported => reportedAt == 0 || reportedAt > _began,
        ReportedLosses.AfterMoment => moment > _since,
        _ => lostAt > _began,
    };

    /// <summary>Completes when the wait is done; call it only before that. The caller continues on the thread pool, never on the sender's thread.</summary>
    public Task WhenDoneAsync() => (_completion ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    /// <summary>Its caller no longer waits.</summary>
    /// <returns>What the caller waited for; end it outside the lock.</returns>
    public TaskCompletionSource GiveUp()
    {
        var completion = _completion!;
        _completion = null;
        IsGivenUp = true;
        return completion;
    }

    /// <summary>Completes this one and those that are chained behind it. Call it outside the lock.</summary>
    public void CompleteAll()
    {
        for (var waiter = this; waiter is not null;)
        {
            var next = waiter.Next;
            waiter.Next = null;
            waiter.Complete();
            waiter = next;
        }
    }

    private void Complete()
    {
        if (Loss is not { } loss)
        {
            _completion!.SetResult();
            return;
        }

        _completion!.SetException(loss.ToException());

        // A caller that does not look at its task must not raise an unobserved task exception.
        _ = _completion.Task.Exception;
    }
}
