using BatchKit.Diagnostics;

namespace BatchKit.Batches;

/// <summary>How a batch ended, from best to worst: with several routes the worst counts.</summary>
internal enum SettlementOutcome
{
    Acknowledged = 0,

    /// <summary>Dropped to free capacity for newer output.</summary>
    Evicted = 1,

    /// <summary>Dropped because the drain limit passed.</summary>
    Stopped = 2,

    Failed = 3,
}

/// <summary>Knows how much of a handle's output is settled, what was lost, and which flushes wait.</summary>
internal sealed class HandleSettlement(BufferSettings settings, RouteBudget route)
{
    // Beyond this, older losses are merged, so that a handle whose losses are never reported stays small.
    private const int MaxLosses = 32;

    // Held for a few instructions, but for every batch: a Lock would take 6 ns of an unscoped write's 100. Waiters continue on the pool, so no foreign code is
    // called under it.
    private SpinLock _gate = new(enableThreadOwnerTracking: false);

    // Guarded by the handle's lock.
    private long _queued;

    // Guarded by _gate.
    private long _settled;
    private long _moment;
    private long _lastLoss;
    private int _unreportedLosses;
    private List<Loss>? _losses;
    private FlushQueue? _flushes;
    private FlushWaiter? _spare;

    // Both moments are counters, not times: a wait reports what was not reported before it began.
    private readonly record struct Loss(long Sequence, long Messages, Exception? Cause, long At, long ReportedAt, long Moment);

    /// <summary>The handle's part of the capacity.</summary>
    public HandleBudget Budget { get; } = new(route, settings);

    /// <summary>How many batches are closed and not sealed. Guarded by the handle's lock.</summary>
    public int Unsealed { get; set; }

    /// <summary>The place of the last batch that was queued. Exact only under the handle's lock.</summary>
    public long Queued => _queued;

    /// <summary>True when every batch that was queued is settled. Exact only under the handle's lock.</summary>
    public bool IsIdle => Volatile.Read(ref _settled) == _queued;

    /// <summary>True when a loss was not reported yet. A hint, because it is read outside the lock.</summary>
    public bool HasUnreportedLoss => Volatile.Read(ref _unreportedLosses) > 0;

    /// <summary>True when something was lost behind a place. A hint, because it is read outside the lock.</summary>
    public bool HasLossBehind(long place) => Volatile.Read(ref _lastLoss) > place;

    /// <summary>Counts a batch that is being queued; call it under the handle's lock.</summary>
    /// <returns>The batch's place.</returns>
    public long Add() => ++_queued;

    /// <summary>Counts a message that the overflow policy dropped at its write as lost, so that the end of its scope or a flush reports it. Call it under the handle's lock.</summary>
    public void CountDroppedAtWrite() => Settle(Add(), bytes: 0, lostMessages: 1, cause: null);

    /// <summary>Until when a message may be sent for the first time; null for any time.</summary>
    public long? DeadlineOf(MessageHeader? header) => header?.TimeToLive is { } time ? settings.Clock.After(time) : null;

    public TimeSpan TimeLeftUntil(long deadline) => settings.Clock.Until(deadline);

    /// <summary>Takes out of a batch what is too old to be sent, and counts it. It is reported as lost when the batch is settled, and keeps its capacity until then, as the memory does.</summary>
    public int RemoveExpired(ref BatchMemory memory)
    {
        var expired = memory.RemoveExpired(settings.Clock.Now);
        settings.Metrics.CountExpired(expired);
        return expired;
    }

    public void Settle(long sequence, long bytes, long lostMessages, Exception? cause)
    {
        FlushWaiter? done = null;
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            Volatile.Write(ref _settled, _settled + 1);
            Budget.CountReturned(bytes);
            if (lostMessages > 0)
                AddLoss(new Loss(sequence, lostMessages, cause, ++_moment, ReportedAt: 0, settings.NextLoss()));
            if (_flushes is { IsEmpty: false })
                done = CountDown(_flushes, sequence);
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }

        Budget.GrantWaiters();
        done?.CompleteAll();
    }

    /// <summary>
    /// Begins to wait for all that was queued so far. Call it under the handle's lock, before a sender is started: an inline sender may settle, or lose,
    /// everything before its caller looks again.
    /// </summary>
    /// <param name="reports">Which losses the wait reports.</param>
    /// <param name="since">For the end of a scope: what was lost behind this place was written in that scope.</param>
    /// <param name="heldSince">For the last scope to close: unreported losses behind this place were written in a scope that closed earlier.</param>
    /// <returns>Null when there is nothing to wait for and nothing to report; else give it to <see cref="EndWait"/>.</returns>
    public FlushWaiter? BeginWait(ReportedLosses reports, long since = 0, long heldSince = 0)
    {
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            if (_settled == _queued && _losses is null)
                return null;
            var waiter = _spare ?? new FlushWaiter();
            _spare = null;
            var unsettled = _queued - _settled;
            waiter.Begin(reports, since, heldSince, _queued, isDone: unsettled == 0, ++_moment);
            if (unsettled > 0)
                (_flushes ??= new FlushQueue()).Add(waiter, unsettled);
            return waiter;
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    /// <summary>Begins a report of what is known to be lost behind a place, which waits for nothing. Call it under the handle's lock.</summary>
    /// <returns>Null when nothing was lost; else give it to <see cref="EndWait"/>.</returns>
    public FlushWaiter? BeginReport(long since)
    {
        if (!HasLossBehind(since))
            return null;
        var waiter = new FlushWaiter();
        waiter.Begin(ReportedLosses.OfScope, since, since, through: _queued, isDone: true, began: long.MaxValue);
        return waiter;
    }

    /// <summary>Begins a report of what was lost after a moment of the buffer, which waits for nothing.</summary>
    /// <returns>Null when nothing was lost; else give it to <see cref="EndWait"/>.</returns>
    public FlushWaiter? BeginReportAfter(long moment)
    {
        if (!HasLossBehind(0))
            return null;
        var waiter = new FlushWaiter();
        waiter.Begin(ReportedLosses.AfterMoment, moment, moment, through: long.MaxValue, isDone: true, began: long.MaxValue);
        return waiter;
    }

    /// <summary>Completes when the batches that the waiter counts are settled, and fails when it has a loss to report.</summary>
    /// <param name="waiter">What <see cref="BeginWait"/> returned.</param>
    /// <param name="isInsideSend">True inside a send of this buffer. The call then completes at once; otherwise the send would wait for itself.</param>
    /// <param name="cancellationToken">Ends the wait.</param>
    public ValueTask EndWait(FlushWaiter waiter, bool isInsideSend, CancellationToken cancellationToken)
    {
        LossReport? loss = null;
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
                loss = waiter.IsDone ? Report(waiter) : null;
                if (waiter.IsDone || _flushes!.TryRemoveLast(waiter))
                    _spare = waiter;
            }
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }

        if (completion is not null)
            return new ValueTask(cancellationToken.CanBeCanceled ? WaitAsync(waiter, completion, cancellationToken) : completion);
        return loss is { } report ? ValueTask.FromException(report.ToException()) : default;
    }

    // The end of the wait is decided under the lock: a wait that was cancelled has reported nothing.
    private async Task WaitAsync(FlushWaiter waiter, Task completion, CancellationToken cancellationToken)
    {
        var registration = cancellationToken.UnsafeRegister(static (state, token) =>
        {
            var (settlement, waiter) = ((HandleSettlement, FlushWaiter))state!;
            settlement.GiveUp(waiter)?.SetCanceled(token);
        }, (this, waiter));
        try
        {
            await completion.ConfigureAwait(false);
        }
        finally
        {
            await registration.DisposeAsync().ConfigureAwait(false);
        }
    }

    /// <returns>Null when the wait is done.</returns>
    private TaskCompletionSource? GiveUp(FlushWaiter waiter)
    {
        var isTaken = false;
        try
        {
            _gate.Enter(ref isTaken);
            if (waiter.IsDone)
                return null;
            var completion = waiter.GiveUp();
            _flushes!.TryRemoveLast(waiter);
            return completion;
        }
        finally
        {
            if (isTaken)
                _gate.Exit(useMemoryBarrier: false);
        }
    }

    private void AddLoss(Loss loss)
    {
        _losses ??= [];
        if (_losses.Count == MaxLosses)
            MergeTwo(_losses);
        _losses.Add(loss);
        _lastLoss = Math.Max(_lastLoss, loss.Sequence);
        Volatile.Write(ref _unreportedLosses, _unreportedLosses + 1);
    }

    // Merges two that were reported, or two that were not; otherwise a loss would be reported twice or never. Any three losses have such a pair.
    private void MergeTwo(List<Loss> losses)
    {
        var (first, second) = (0, 1);
        if (!IsAlike(losses[first], losses[second]))
            (first, second) = IsAlike(losses[1], losses[2]) ? (1, 2) : (0, 2);
        var (older, newer) = (losses[first], losses[second]);
        losses[second] = newer with
        {
            Sequence = Math.Max(older.Sequence, newer.Sequence),
            Messages = older.Messages + newer.Messages,
            Moment = Math.Max(older.Moment, newer.Moment),
        };
        losses.RemoveAt(first);
        if (newer.ReportedAt == 0)
            Volatile.Write(ref _unreportedLosses, _unreportedLosses - 1);
    }

    private static bool IsAlike(Loss left, Loss right) => (left.ReportedAt == 0) == (right.ReportedAt == 0);

    private FlushWaiter? CountDown(FlushQueue flushes, long sequence)
    {
        var done = flushes.CountDown(sequence);
        for (var waiter = done; waiter is not null; waiter = waiter.Next)
            waiter.Loss = Report(waiter);
        return done;
    }

    private LossReport? Report(FlushWaiter waiter)
    {
        if (_losses is null)
            return null;
        var lost = 0L;
        Exception? cause = null;
        for (var index = 0; index < _losses.Count; index++)
        {
            var loss = _losses[index];
            if (loss.Sequence > waiter.Through || !waiter.Reports(loss.Sequence, loss.At, loss.ReportedAt, loss.Moment))
                continue;
            lost += loss.Messages;
            cause ??= loss.Cause;
            if (loss.ReportedAt != 0)
                continue;
            _losses[index] = loss with { ReportedAt = ++_moment };
            Volatile.Write(ref _unreportedLosses, _unreportedLosses - 1);
        }

        return lost == 0 ? null : new LossReport(lost, cause);
    }
}

/// <summary>What a wait has to report: how many messages were lost, and why.</summary>
internal readonly record struct LossReport(long Messages, Exception? Cause)
{
    /// <summary>The error that the caller gets. Call it outside every lock, because it reads the cause's text.</summary>
    public OutputDeliveryException ToException()
    {
        var cause = Cause is null ? "they were dropped." : FailureText.MessageOf(Cause);
        return new OutputDeliveryException(
            Messages, $"{Messages} {(Messages == 1 ? "message was" : "messages were")} not delivered and will not be sent again: {cause} Write them again if they still matter.", Cause);
    }
}
