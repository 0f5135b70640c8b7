using System.Runtime.CompilerServices;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>One handle's output until it is queued: counts its scopes and decides when its batch is sealed.</summary>
/// <remarks>
/// The lock guards every field, so that counting, sealing and queueing are one step and no wake-up is lost. Inside it a partition's lock or
/// the linger queue's may be taken, never the other way round; nothing is sent, awaited or called back under it.
/// </remarks>
internal sealed class HandleBuffer
{
    private readonly Lock _gate = new();
    private readonly BufferingSettings _settings;
    private BatchBuilder _builder;
    private HandleScopes _scopes;
    private bool _lingers;
    private bool _isRetired;
    private long _usedAt;
    private long _acceptedMessages;
    private long _acceptedBytes;

    public HandleBuffer(OutputHandle handle, DispatchPartition[] partitions, BufferingSettings settings)
    {
        _settings = settings;
        Handle = handle;
        Partitions = partitions;
        _usedAt = settings.Clock.Timestamp;
        _builder = new BatchBuilder(this, _gate, partitions, settings);
    }

    public OutputHandle Handle { get; }

    public DispatchPartition[] Partitions { get; }

    /// <summary>A hint, because it looks outside the lock: whether it belongs to that output buffer and is not retired.</summary>
    public bool IsUsableIn(BufferingSettings settings) => ReferenceEquals(_settings, settings) && !Volatile.Read(ref _isRetired);

    /// <summary>Adds a message, and queues its batch where no scope holds it back.</summary>
    /// <remarks>Never inlined: the compiler's budget would be spent on it at the caller, and the copy inside it not inlined (27 ns a write, not 25).</remarks>
    [MethodImpl(MethodImplOptions.NoInlining)]
    public AppendResult Append(ReadOnlySpan<byte> payload, MessageHeader? header, int prepaid)
    {
        var result = AppendResult.NoRoom;
        int starts;
        lock (_gate)
        {
            if (_isRetired)
                return AppendResult.Retired;
            if (_builder.TryAppend(payload, header, prepaid, out starts))
            {
                result = AppendResult.Accepted;
                _acceptedMessages++;
                _acceptedBytes += payload.Length;
                starts |= QueueUnlessHeld();
            }
        }

        if (starts != 0)
            _builder.Start(starts);
        return result;
    }

    /// <returns>Null when the handle was retired meanwhile: look it up again.</returns>
    public BufferingScope? OpenScope(string openerFile, int openerLine)
    {
        BufferingScope scope;
        int starts;
        lock (_gate)
        {
            if (_isRetired)
                return null;
            // What was written before the scope must not wait for it.
            starts = _scopes.Count == 0 ? SealOpen(FlushReason.ScopeOpened) : 0;
            _usedAt = _settings.Clock.Timestamp;
            var token = _scopes.Open(this, openerFile, openerLine, _usedAt);
            scope = new BufferingScope(token, token.Version);
        }

        _builder.Start(starts);
        return scope;
    }

    public void CloseScope(HandleScopeToken token, long version) => CloseScope(token, version, waits: false);

    /// <summary>Closes a scope and completes when what that flushed is settled.</summary>
    public ValueTask CloseScopeAsync(HandleScopeToken token, long version) =>
        EndWait(CloseScope(token, version, waits: true), CancellationToken.None);

    /// <summary>Closes the scope that was opened last.</summary>
    /// <returns>False when none is open.</returns>
    public bool CloseYoungestScope()
    {
        int starts;
        lock (_gate)
        {
            if (_scopes.Youngest is not { } youngest)
                return false;
            starts = Close(youngest);
        }

        _builder.Start(starts);
        return true;
    }

    /// <summary>Seals and queues what is open, in open scopes too.</summary>
    public void Flush(FlushReason reason)
    {
        int starts;
        lock (_gate)
            starts = SealOpen(reason);
        _builder.Start(starts);
    }

    /// <summary>The same, and completes when it and all before it is settled.</summary>
    public ValueTask FlushAsync(FlushReason reason, CancellationToken cancellationToken)
    {
        FlushWaiter? waiter;
        int starts;
        lock (_gate)
        {
            starts = SealOpen(reason);
            waiter = _builder.Settlement.BeginWait();
        }

        _builder.Start(starts);
        return EndWait(waiter, cancellationToken);
    }

    /// <summary>Queues what lingers; what a scope holds back stays.</summary>
    public void FlushLinger()
    {
        int starts;
        lock (_gate)
        {
            _lingers = false;
            starts = _scopes.Count == 0 ? SealOpen(FlushReason.Linger) : 0;
        }

        _builder.Start(starts);
    }

    /// <summary>The place in the buffer's order of what a scope holds back; null when it holds nothing.</summary>
    public long? FindHeldOrder()
    {
        lock (_gate)
            return _builder.HasHeld ? _builder.HeldOrder : null;
    }

    /// <summary>Takes what a scope holds back out, to make room. The caller settles it as dropped.</summary>
    public PendingBatch? TakeHeld()
    {
        lock (_gate)
            return _builder.HasHeld ? _builder.TakeHeld() : null;
    }

    /// <summary>Closes scopes that are too old, and retires the handle when it is idle and was for long.</summary>
    /// <returns>True when it was retired.</returns>
    public bool Sweep(TimeSpan idleTimeout)
    {
        List<ExpiredScope>? expired;
        int starts;
        bool retires;
        lock (_gate)
        {
            expired = _scopes.CloseExpired(_settings.Clock, _settings.Options.MaxScopeAge);
            starts = expired is not null && _scopes.Count == 0 ? SealOpen(FlushReason.ScopeExpired) : 0;
            retires = _scopes.Count == 0 && !_builder.HasOpen && _builder.Settlement.IsIdle && !_isRetired
                && _settings.Clock.AgeOf(_usedAt) >= idleTimeout;
            _isRetired |= retires;
        }

        if (expired is not null)
        {
            foreach (var scope in expired)
                _settings.Logger.ScopeExpired(_settings.Options.MaxScopeAge, scope.OpenerFile, scope.OpenerLine);
        }

        _builder.Start(starts);
        return retires;
    }

    /// <summary>Takes no more messages and queues what is open: the buffer stops.</summary>
    public void Stop()
    {
        int starts;
        lock (_gate)
        {
            _isRetired = true;
            starts = SealOpen(FlushReason.Drain);
        }

        _builder.Start(starts);
    }

    public HandleStatistics GetStatistics()
    {
        lock (_gate)
            return new HandleStatistics(_acceptedMessages, _acceptedBytes, _builder.HeldMessages, _scopes.Count);
    }

    private FlushWaiter? CloseScope(HandleScopeToken token, long version, bool waits)
    {
        FlushWaiter? waiter;
        int starts;
        lock (_gate)
        {
            if (token.Version != version)
                return null;
            waits &= _scopes.Count == 1 && _builder.HasOpen;
            starts = Close(token);
            waiter = waits ? _builder.Settlement.BeginWait() : null;
        }

        _builder.Start(starts);
        return waiter;
    }

    private ValueTask EndWait(FlushWaiter? waiter, CancellationToken cancellationToken) =>
        waiter is null ? default : _builder.Settlement.EndWait(waiter, _settings.SendContext.IsInside, cancellationToken);

    private int QueueUnlessHeld()
    {
        // While a writer waits for room, holding back could make it wait for ever.
        if (_settings.Budget.HasWaiters)
            return _builder.SealAndQueue(FlushReason.RoomNeeded);
        if (_scopes.Count > 0)
            return 0;
        _usedAt = _settings.Clock.Timestamp;
        if (!_settings.Lingers)
            return _builder.QueueOpen();
        if (!_lingers)
        {
            _lingers = true;
            _settings.Linger.Add(this);
        }

        return 0;
    }

    private int SealOpen(FlushReason reason) => _builder.HasOpen ? _builder.SealAndQueue(reason) : 0;

    private int Close(HandleScopeToken token)
    {
        _scopes.Close(token);
        _usedAt = _settings.Clock.Timestamp;
        return _scopes.Count == 0 ? SealOpen(FlushReason.ScopeClosed) : 0;
    }
}
