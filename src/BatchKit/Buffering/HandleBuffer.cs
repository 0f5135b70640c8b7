using System.Diagnostics;
using System.Runtime.CompilerServices;
using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>One handle's output until it is queued: counts its scopes, fills its open batch, and decides when what it holds is queued.</summary>
/// <remarks>
/// The lock guards every field, so that counting, sealing and queueing are one step and no wake-up is lost. Inside it a partition's lock, the hold queue's or that of the list of held handles may be
/// taken, never the other way round. Nothing is sent, awaited or called back under it, except the encoder of a message that is written in place. Only an ambient scope holds several handles' locks.
/// </remarks>
internal sealed class HandleBuffer : ITimedHold
{
    /// <summary>How long a reading, or a writer that needs capacity, waits for the lock. One that nothing hangs in is free much sooner.</summary>
    public const int LongestWaitMilliseconds = 1;

    private static long _lastId;

    private readonly Lock _gate = new();
    private readonly BufferSettings _settings;
    private readonly HeldHandles _heldHandles;
    private HandleOutput _output;
    private HandleScopes _scopes = new();
    private HandleHold _hold;
    private HandleWriters _writers;
    private bool _isRetired;
    private long _usedAt;

    public HandleBuffer(OutputHandle handle, DispatchPartition[] partitions, RouteBudget budget, BufferSettings settings, HeldHandles heldHandles, HoldQueue holds)
    {
        Handle = handle;
        _settings = settings;
        _output = new HandleOutput(handle, _gate, partitions, settings, budget);
        _heldHandles = heldHandles;
        _hold = new HandleHold(holds);
        _usedAt = settings.Clock.Coarse;
    }

    public OutputHandle Handle { get; }

    public HandleBudget Budget => _output.Settlement.Budget;

    /// <summary>Its lock, for the end of an ambient scope, which queues several handles' output in one step.</summary>
    public Lock Gate => _gate;

    // These three for its writers' segments, under the lock.
    public ref HandleOutput Output => ref _output;

    public ref HandleWriters Writers => ref _writers;

    public bool HasAmbientScope => _scopes.HasAmbient;

    /// <summary>Its place in the order in which several handles' locks are taken.</summary>
    public long Id { get; } = Interlocked.Increment(ref _lastId);

    public int HoldPlace { get; set; }

    /// <summary>Its node in the list of held handles. Only that list uses it.</summary>
    public LinkedListNode<HandleBuffer>? HeldNode { get; set; }

    /// <summary>Whether it belongs to that output buffer and is not retired. A hint, because it is read outside the lock.</summary>
    public bool IsUsableIn(BufferSettings settings) => ReferenceEquals(_settings, settings) && !Volatile.Read(ref _isRetired);

    /// <summary>Adds a message, and queues its batch where no scope holds it back.</summary>
    /// <remarks>With <c>startsRun</c> the message needs a batch behind what its ambient scope wrote to other handles. Never inlined: it would use up the caller's inlining budget, and the copy inside it would not be inlined (27 ns a write instead of 25).</remarks>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public AppendResult Append<TPayload>(scoped ref TPayload payload, MessageHeader? header, int prepaid, bool startsRun)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        var result = AppendResult.NoCapacity;
        var starts = default(SenderStarts);
        var cost = MessageCost.InFrame(ref payload, header);
        lock (_gate)
        {
            if (_isRetired || (TPayload.MayFail && !payload.IsEncoded && _output.MayNeedSealing))
                return _isRetired ? AppendResult.Retired : AppendResult.EncodeFirst;
            if (TPayload.IsLatest && _output.TryReplace(ref payload, header, startsRun, out var replaced))
                return replaced < 0 ? AppendResult.NoCapacity : AppendResult.Accepted;
            var batch = _output.OpenFor(cost, header, startsRun, _scopes.HasAmbient, ref starts);
            var bytes = batch.Append(ref payload, header, prepaid);
            if (bytes >= 0)
            {
                result = AppendResult.Accepted;
                _output.CountAccepted(bytes);
                if (header is { Kind: MessageKind.Control })
                    _settings.GroupChanges.Note(in batch.Memory, batch.Count - 1);
                if (TPayload.IsLatest)
                    _output.AddLatest(payload.Key);
                if (BatchKitTracing.IsListening)
                    batch.Writers.RememberCurrent();
                if (HeldNode is null || prepaid != 0 || _scopes.AllHaveLimits)
                    QueueUnlessHeld(ref starts);
            }
            else
            {
                _output.GiveUpIfEmpty();
            }
        }

        starts.StartAll();
        return result;
    }

    /// <returns>Null when the handle was retired meanwhile: look it up again.</returns>
    public BufferingScope? OpenScope(in ScopeOpening opening, ref SenderStarts starts)
    {
        lock (_gate)
        {
            if (_isRetired)
                return null;

            // What was written before the scope must not wait for it.
            if (_scopes.Count == 0)
                _output.QueueAll(FlushReason.ScopeOpened, ref starts);
            else if (opening.IsAmbient)
                _output.PlaceHeld();
            _usedAt = _settings.Clock.Coarse;
            var token = _scopes.Open(this, opening, _usedAt, _output.Settlement.Queued);
            // A handle's own limit replaces an ambient scope's, and may be shorter.
            if (opening.HasLimit)
            {
                QueueWhenOver(countsFromNow: false, ref starts);
                token.Since = _output.Settlement.Queued;
            }

            return new BufferingScope(token, token.Version);
        }
    }

    /// <summary>Closes a scope. A caller that waits gives the waiter to <see cref="EndWait"/>: it fails when a message that was written in the scope was lost.</summary>
    public FlushWaiter? CloseScope(HandleScopeToken token, long version, bool waits)
    {
        FlushWaiter? waiter = null;
        var starts = default(SenderStarts);
        lock (_gate)
        {
            if (token.Version == version)
            {
                if (_scopes.TryClose(token) || _scopes.Count == 0)
                    QueueAfter(token, ref starts);
                waiter = waits ? _scopes.BeginWaitForEndOf(token, _output.Settlement) : null;
            }
        }

        starts.StartAll();
        return waiter;
    }

    /// <summary>Closes the scope that was opened last.</summary>
    /// <returns>False when none is open.</returns>
    public bool CloseYoungestScope()
    {
        var starts = default(SenderStarts);
        lock (_gate)
        {
            if (_scopes.FindYoungest() is not { } youngest)
                return false;
            _scopes.End(youngest, this);
            _writers.HandOverAll(this);
            QueueAfter(youngest, ref starts);
        }

        starts.StartAll();
        return true;
    }

    /// <summary>Seals and queues what is open, in open scopes too.</summary>
    public void Flush(FlushReason reason) => Flush(reason, reports: null);

    /// <summary>Seals and queues what is open, if that is wanted, and completes when all that was queued so far is settled. Fails when it has a loss to report.</summary>
    public ValueTask FlushAsync(ReportedLosses reports, CancellationToken cancellationToken, bool seals = true) =>
        EndWait(Flush(seals ? FlushReason.Requested : null, reports), cancellationToken);

    /// <summary>Queues what is held when the limit of its scopes has passed since the first message.</summary>
    public void OnDue()
    {
        var starts = default(SenderStarts);
        lock (_gate)
        {
            _hold.OnDue();
            QueueWhenOver(countsFromNow: false, ref starts);
        }

        starts.StartAll();
    }

    /// <summary>Takes out the oldest batch that a scope holds back. The caller settles it as dropped.</summary>
    public PendingBatch? TakeHeld()
    {
        lock (_gate)
        {
            _writers.HandOverAll(this);
            return _output.HasHeld ? _output.TakeOldestHeld() : null;
        }
    }

    /// <summary>Closes scopes that are too old, queues what scopes that overlap have held for too long, and retires the handle when it has been idle for long.</summary>
    /// <returns>True when it was retired.</returns>
    public bool Sweep(TimeSpan idleTimeout, out List<ScopeOpening>? expired, out ScopeOpening? overlap)
    {
        _settings.CountLook();
        var starts = default(SenderStarts);
        bool retires;
        lock (_gate)
        {
            expired = _scopes.EndExpired(this, _settings.Clock, _settings.MaxScopeAge);
            overlap = _scopes.EndOverlap(_settings.Clock, _settings.MaxScopeAge);
            if (overlap is not null || expired is not null)
                _writers.HandOverAll(this);
            if (overlap is not null || (expired is not null && _scopes.Count == 0))
                _output.QueueAll(FlushReason.ScopeExpired, ref starts);
            else if (expired is not null)
                QueueWhenOver(countsFromNow: true, ref starts);
            if (!_output.HasHeld)
                _hold.End(this);
            var idle = _settings.Clock.AgeOf(_usedAt);
            retires = Budget.Waits == 0 && !_output.HasOpen && !_output.HasHeld && _output.Settlement.IsIdle && !_isRetired && idle >= idleTimeout
                && _scopes.TryEndUnused(this, _output.Settlement, idle >= _settings.HandleIdleTimeout);
            _isRetired |= retires;
        }

        starts.StartAll();
        return retires;
    }

    /// <summary>Takes no more messages and queues what is open: the buffer stops.</summary>
    public void Stop()
    {
        var starts = default(SenderStarts);
        lock (_gate)
        {
            _isRetired = true;
            QueueAll(FlushReason.Drain, ref starts);
        }

        starts.ScheduleAll();
        Budget.FailWaiters(HandleTable.Stopped());
    }

    /// <remarks>An encoder that hangs has the lock. The figures are read without it then: none goes back, and what is pending may be off by a few until the encoder ends.</remarks>
    public HandleStatistics GetStatistics()
    {
        _settings.CountLook();
        var isTaken = _gate.TryEnter(LongestWaitMilliseconds);
        try
        {
            return _writers.ReadStatistics(ref _output, _scopes.Count);
        }
        finally
        {
            if (isTaken)
                _gate.Exit();
        }
    }

    /// <summary>Closes a scope. The run gets what the handle no longer holds back. The caller holds the lock.</summary>
    public FlushWaiter? CloseInto(HandleScopeToken token, long version, OutputRun run, bool waits)
    {
        if (token.Version != version)
            return null;
        if (_scopes.TryClose(token))
        {
            _usedAt = _settings.Clock.Coarse;
            if (_scopes.Count == 0)
                _output.MoveInto(run, FlushReason.ScopeClosed);
            else if (_hold.IsOver(this, _output.HasHeld, _scopes, countsFromNow: !token.Opening.HasLimit))
                _output.MoveInto(run, FlushReason.HoldLimit);
        }

        return waits ? _scopes.BeginWaitForEndOf(token, _output.Settlement) : null;
    }

    /// <summary>Moves what is held into the run, unless a scope without a limit is open. The caller holds the lock.</summary>
    public void FlushInto(OutputRun run, FlushReason reason)
    {
        if (_scopes.AllHaveLimits)
            _output.MoveInto(run, reason);
    }

    /// <summary>Begins a report of what is known to be lost of what was written in a scope, which stays open.</summary>
    public FlushWaiter? BeginReport(HandleScopeToken token, long version)
    {
        lock (_gate)
            return token.Version == version ? _output.Settlement.BeginReport(token.Since) : null;
    }

    public ValueTask EndWait(FlushWaiter? waiter, CancellationToken cancellationToken) =>
        waiter is null ? default : _output.Settlement.EndWait(waiter, _settings.SendContext.IsInside, cancellationToken);

    /// <summary>False when a writer's messages must leave at once. Call it under the lock.</summary>
    public bool MayHoldBack()
    {
        if (HeldNode is null && !_isRetired)
            _heldHandles.Add(this);
        return !_isRetired && !Budget.HasWaiters;
    }

    private FlushWaiter? Flush(FlushReason? reason, ReportedLosses? reports)
    {
        var starts = default(SenderStarts);
        FlushWaiter? waiter;
        lock (_gate)
        {
            if (reason is { } needed)
                QueueAll(needed, ref starts);
            waiter = reports is { } wanted ? _output.Settlement.BeginWait(wanted) : null;
        }

        starts.StartAll();
        return waiter;
    }

    private void QueueAll(FlushReason reason, ref SenderStarts starts)
    {
        _writers.HandOverAll(this);
        _output.QueueAll(reason, ref starts);
    }

    private void QueueAfter(HandleScopeToken closed, ref SenderStarts starts)
    {
        _usedAt = _settings.Clock.Coarse;
        if (_scopes.Count == 0)
            _output.QueueAll(FlushReason.ScopeClosed, ref starts);
        else
            QueueWhenOver(countsFromNow: !closed.Opening.HasLimit, ref starts);
    }

    // Held output that no one flushes could make a writer wait for ever. One that begins to wait flushes what is held: the first held message, which it may have missed, and that of a writer that has waited are left.
    [MethodImpl(MethodImplOptions.NoInlining)]
    private void QueueUnlessHeld(ref SenderStarts starts)
    {
        _usedAt = _settings.Clock.Coarse;
        if (HeldNode is null && _scopes.Count > 0)
            _heldHandles.Add(this);
        if (Budget.HasWaiters)
            _output.QueueAll(FlushReason.CapacityNeeded, ref starts);
        else if (_scopes.Count == 0)
            _output.QueueOpen(ref starts);
        else if (_scopes.AllHaveLimits && _output.HeldMessages == 1)
            _hold.IsOver(this, hasHeld: true, _scopes, countsFromNow: true);
    }

    private void QueueWhenOver(bool countsFromNow, ref SenderStarts starts)
    {
        if (_hold.IsOver(this, _output.HasHeld, _scopes, countsFromNow))
            _output.QueueAll(FlushReason.HoldLimit, ref starts);
    }
}
