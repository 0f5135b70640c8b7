namespace BatchKit.Batches;

/// <summary>How a batch ended, from best to worst: with several routes the worst counts.</summary>
internal enum SettlementOutcome
{
    Acknowledged = 0,

    /// <summary>Dropped to make place for newer output.</summary>
    Evicted = 1,

    /// <summary>Dropped because the drain limit passed.</summary>
    Stopped = 2,

    Failed = 3,
}

/// <summary>How much of a handle's output is settled, what of it was lost, and the flushes that wait.</summary>
internal sealed class HandleSettlement
{
    // Older losses are added up past this, so that a handle whose losses are never asked for stays small.
    private const int MaxLosses = 32;

    // Held for a few instructions, and for every batch: a Lock takes 6 ns of an unscoped write's 100. Waiters continue on the pool, so nothing foreign is
    // called under it.
    private SpinLock _gate = new(enableThreadOwnerTracking: false);

    // Guarded by the handle's lock.
    private long _queued;

    // Guarded by _gate.
    private long _settled;
    private long _flushedThrough;
    private long _lastLoss;
    private List<Loss>? _losses;
    private List<FlushWaiter>? _waiters;
    private FlushWaiter? _spare;

    private readonly record struct Loss(long Sequence, long Messages, Exception? Cause);

    /// <summary>The place of the last batch that was queued. Exact only under the handle's lock.</summary>
    public long Queued => _queued;

    /// <summary>True when every batch that was queued is settled. Exact only under the handle's lock.</summary>
    public bool IsIdle => Volatile.Read(ref _settled) == _queued;

    /// <summary>True when something was lost that no flush has reported. A hint, because it looks outside the lock.</summary>
    public bool HasUnreportedLoss => Volatile.Read(ref _lastLoss) > Volatile.Read(ref _flushedThrough);

    /// <summary>Counts a batch that is being queued; call it under the handle's lock.</summary>
    /// <returns>The batch's place.</returns>
    public long Add() => ++_queued;

    public void Settle(long sequence, long lostMessages, Exception? cause)
    {
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            Volatile.Write(ref _settled, _settled + 1);
            if (lostMessages > 0)
                AddLoss(new Loss(sequence, lostMessages, cause));
            if (_waiters is { Count: > 0 })
                Notify(_waiters, sequence);
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    /// <summary>Begins the wait of a flush, which reports what was lost since the flush before it. See <see cref="BeginWait"/>.</summary>
    public FlushWaiter? BeginFlush() => BeginWait(since: null);

    /// <summary>
    /// Begins to wait for all that was queued so far. Call it under the handle's lock, before a sender is started: an inline one may settle, and lose,
    /// everything before its caller looks again.
    /// </summary>
    /// <param name="since">What is lost behind this place is reported; null for a flush.</param>
    /// <returns>Null when there is nothing to wait for and nothing to report; else give it to <see cref="EndWait"/>.</returns>
    public FlushWaiter? BeginWait(long? since)
    {
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            if (_settled == _queued && _losses is null)
                return null;
            var waiter = _spare ?? new FlushWaiter();
            _spare = null;
            waiter.Begin(since ?? _flushedThrough, _queued, _queued - _settled, isFlush: since is null);
            if (!waiter.IsDone)
                (_waiters ??= []).Add(waiter);
            return waiter;
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    /// <summary>Begins a report of what is known to be lost behind a place, which waits for nothing.</summary>
    /// <returns>Null when nothing was lost; else give it to <see cref="EndWait"/>.</returns>
    public FlushWaiter? BeginReport(long since)
    {
        if (Volatile.Read(ref _lastLoss) <= since)
            return null;
        var waiter = new FlushWaiter();
        waiter.Begin(since, through: long.MaxValue, remaining: 0, isFlush: false);
        return waiter;
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
                error = waiter.IsDone ? Report(waiter) : null;
                _waiters?.Remove(waiter);
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

    private void AddLoss(Loss loss)
    {
        _losses ??= [];
        if (_losses.Count == MaxLosses)
            MergeTwo(_losses);
        _losses.Add(loss);
        Volatile.Write(ref _lastLoss, Math.Max(_lastLoss, loss.Sequence));
    }

    // Two that no flush has reported, or two that one has: merged across that border, a loss would be reported twice.
    private void MergeTwo(List<Loss> losses)
    {
        var first = 0;
        while ((losses[first].Sequence <= _flushedThrough) != (losses[first + 1].Sequence <= _flushedThrough))
            first++;
        var (older, newer) = (losses[first], losses[first + 1]);
        losses[first + 1] = new Loss(Math.Max(older.Sequence, newer.Sequence), older.Messages + newer.Messages, older.Cause ?? newer.Cause);
        losses.RemoveAt(first);
    }

    private void Notify(List<FlushWaiter> waiters, long sequence)
    {
        foreach (var waiter in waiters)
        {
            if (waiter.CountDown(sequence) && waiter.IsAwaited)
                waiter.Complete(Report(waiter));
        }

        waiters.RemoveAll(static waiter => waiter.IsDone);
    }

    private OutputDeliveryException? Report(FlushWaiter waiter)
    {
        var lost = 0L;
        Exception? cause = null;
        foreach (var loss in _losses ?? [])
        {
            if (loss.Sequence <= waiter.Since || loss.Sequence > waiter.Through)
                continue;
            lost += loss.Messages;
            cause ??= loss.Cause;
        }

        if (waiter.IsFlush)
            _flushedThrough = Math.Max(_flushedThrough, waiter.Through);
        return lost == 0 ? null : ErrorFor(lost, cause);
    }

    public static OutputDeliveryException ErrorFor(long lostMessages, Exception? cause) =>
        new(lostMessages, $"{lostMessages} messages were not delivered: {cause?.Message ?? "they were dropped."}", cause);
}

/// <summary>A flush, or the end of a scope, that counts down the batches queued before it. Used again by its handle; guarded by the settlement's lock.</summary>
internal sealed class FlushWaiter
{
    private long _remaining;
    private TaskCompletionSource? _completion;

    public bool IsDone => _remaining == 0;

    public bool IsAwaited => _completion is not null;

    public bool IsFlush { get; private set; }

    /// <summary>What was lost behind this place is reported.</summary>
    public long Since { get; private set; }

    /// <summary>The last place that it waits for.</summary>
    public long Through { get; private set; }

    public void Begin(long since, long through, long remaining, bool isFlush)
    {
        Since = since;
        Through = through;
        IsFlush = isFlush;
        _remaining = remaining;
        _completion = null;
    }

    /// <summary>For a wait that is not done yet. It continues on the thread pool, never on the sender's thread.</summary>
    public Task WhenDoneAsync() => (_completion ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;

    /// <returns>True when that was the last batch it waited for.</returns>
    public bool CountDown(long sequence) => sequence <= Through && --_remaining == 0;

    public void Complete(OutputDeliveryException? error)
    {
        if (error is null)
        {
            _completion!.SetResult();
            return;
        }

        _completion!.SetException(error);

        // A wait whose caller gave up must not show up as an unobserved exception.
        _ = _completion.Task.Exception;
    }
}
