using BatchKit.Batches;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>The scope of an async flow, on every handle that the flow writes to. Never pooled: a task that outlives its scope would join the next one.</summary>
internal sealed class AmbientScope(AmbientScopes owner, string openerFile, int openerLine, AmbientLimit? limit) : IScopeToken
{
    public const long OutermostVersion = 0;

    private readonly Lock _gate = new();

    // Guarded by _gate, inside which a handle's lock may be taken.
    private BufferingScope _firstScope;
    private AmbientGathering? _more;
    private bool _outermostIsClosed;
    private volatile bool _isClosed;

    // Written under _gate. A read outside it is a hint, which is exact for the flow's own writes.
    private HandleBuffer? _lastWritten;

    public bool IsOpen => !_isClosed;

    /// <summary>Takes a scope on a handle at the flow's first write to it.</summary>
    /// <returns>True when the message needs a batch behind what the flow wrote to other handles since.</returns>
    public bool Cover(HandleBuffer handle)
    {
        if (ReferenceEquals(Volatile.Read(ref _lastWritten), handle))
            return false;
        var starts = default(SenderStarts);
        var startsRun = false;
        lock (_gate)
        {
            if (_isClosed || !TryTake(handle, ref startsRun, ref starts))
                return false;
            Volatile.Write(ref _lastWritten, handle);
            if (limit is { IsTimed: false })
            {
                limit.IsTimed = true;
                owner.Hold(limit);
            }
        }

        starts.StartAll();
        return startsRun;
    }

    /// <returns>Null when the scope has closed meanwhile.</returns>
    public BufferingScope? TryNest()
    {
        lock (_gate)
        {
            if (_isClosed)
                return null;
            return new BufferingScope(this, (_more ??= new AmbientGathering()).OpenNested(owner.Settings.LastLoss));
        }
    }

    public void Close(long version)
    {
        EncoderGuard.ThrowIfEncoding();
        if (End(version, out _) != AmbientEnd.OfAll)
            return;
        if (_more is not { HasScopes: true })
            _firstScope.Dispose();
        else
            CloseAll(waits: false);
        Forget();
    }

    public ValueTask CloseAsync(long version)
    {
        EncoderGuard.ThrowIfEncoding();
        var end = End(version, out var openedAt);
        if (end == AmbientEnd.OfNone)
            return default;
        if (end == AmbientEnd.OfOne)
            return ReportKnown(version, openedAt);
        var closing = _more is not { HasScopes: true } ? _firstScope.DisposeAsync() : WaitForAll(CloseAll(waits: true));
        Forget();
        return closing;
    }

    /// <summary>Queues what is held, because the limit has passed since the first message. The scope stays open.</summary>
    public void OnDue()
    {
        var run = new OutputRun();
        UnderAllGates(BeginFlush(isDue: true), run, handle => handle.FlushInto(run, FlushReason.HoldLimit));
    }

    /// <summary>Queues what is held, also by scopes on its handles. The scope stays open.</summary>
    public void Flush()
    {
        var run = new OutputRun();
        UnderAllGates(BeginFlush(isDue: false), run, handle =>
        {
            handle.Writers.HandOverAll(handle);
            handle.Output.MoveInto(run, FlushReason.Requested);
        });
    }

    // From here on the limit counts from the next message. The hold queue may still have it: a write may come between its call and this.
    // What the limit has left behind, because another scope held it, is timed by its handle: a tick does not look at what was not written since the one before.
    private HandleBuffer[] BeginFlush(bool isDue)
    {
        lock (_gate)
        {
            if (limit is { IsTimed: true })
            {
                limit.IsTimed = false;
                owner.EndHold(limit);
            }

            _lastWritten = null;
            return _isClosed ? [] : Handles(isDue ? _more?.TakeWritten(owner.Settings) : _more?.Handles);
        }
    }

    // Begins all waits at once, because a report of the losses known by now must not wait for the other handles.
    private static ValueTask WaitForAll(List<(HandleBuffer Handle, FlushWaiter Waiter)> waiters) =>
        HandleTable.WhenAllAsync([.. waiters.Select(static wait => wait.Handle.EndWait(wait.Waiter, CancellationToken.None).AsTask())]);

    // When the handle was retired meanwhile, the write looks it up again, and covers the new one.
    private bool TryTake(HandleBuffer handle, ref bool startsRun, ref SenderStarts starts)
    {
        if (ReferenceEquals(_firstScope.Handle, handle))
        {
            startsRun = _more?.WriteAgainToFirst(handle) == true;
            return true;
        }

        if (_more?.TryWriteAgain(handle, out startsRun) == true)
            return true;
        if (handle.OpenScope(new ScopeOpening(openerFile, openerLine, limit?.MaxHold ?? TimeSpan.Zero, isAmbient: true), ref starts) is not { } scope)
            return false;
        startsRun = true;
        if (_firstScope.Handle is not { } first)
            _firstScope = scope;
        else
            (_more ??= new AmbientGathering()).Add(first, handle, scope, owner.Settings);
        return true;
    }

    private AmbientEnd End(long version, out long openedAt)
    {
        openedAt = 0;
        lock (_gate)
        {
            if (version == OutermostVersion ? _outermostIsClosed : _more?.CloseNested(version, out openedAt) != true)
                return AmbientEnd.OfNone;
            _outermostIsClosed |= version == OutermostVersion;
            if (!_outermostIsClosed || _more?.HasNested == true)
                return AmbientEnd.OfOne;
            _isClosed = true;
            if (limit is { IsTimed: true })
                owner.EndHold(limit);
        }

        owner.OnClosed(this);
        return AmbientEnd.OfAll;
    }

    // The other scopes hold output back until they close. So this one reports the losses known by now, and the last one reports all.
    private ValueTask ReportKnown(long version, long openedAt)
    {
        // In most cases nothing was lost, and there may be many handles.
        if (owner.Settings.LastLoss == openedAt)
            return default;
        var waiters = new List<(HandleBuffer, FlushWaiter)>();
        lock (_gate)
        {
            foreach (var handle in Handles(_more?.Handles))
            {
                var waiter = version == OutermostVersion ? ScopeOn(handle).BeginReport(handle) : handle.Output.Settlement.BeginReportAfter(openedAt);
                if (waiter is not null)
                    waiters.Add((handle, waiter));
            }
        }

        return WaitForAll(waiters);
    }

    // From here on the scope is closed, so its fields no longer change.
    private List<(HandleBuffer Handle, FlushWaiter Waiter)> CloseAll(bool waits)
    {
        var waiters = new List<(HandleBuffer, FlushWaiter)>();
        var run = new OutputRun();
        UnderAllGates(Handles(_more?.Handles), run, handle =>
        {
            if (ScopeOn(handle).CloseInto(handle, run, waits) is { } waiter)
                waiters.Add((handle, waiter));
        });
        return waiters;
    }

    // A timer or task that was started inside the scope keeps it for as long as it lives. It must not keep the handles.
    private void Forget()
    {
        lock (_gate)
        {
            _firstScope = default;
            _more = null;
            _lastWritten = null;
        }
    }

    private BufferingScope ScopeOn(HandleBuffer handle) => ReferenceEquals(handle, _firstScope.Handle) ? _firstScope : _more!.ScopeOn(handle);

    private HandleBuffer[] Handles(IEnumerable<HandleBuffer>? more) => _firstScope.Handle is not { } first ? [] : [first, .. more ?? []];

    // Takes all locks at once, so that no other writer's output gets between what the scope held. The order is that of the handles' ids; otherwise two scopes could deadlock.
    private static void UnderAllGates(HandleBuffer[] handles, OutputRun run, Action<HandleBuffer> take)
    {
        Array.Sort(handles, static (left, right) => left.Id.CompareTo(right.Id));
        var starts = default(SenderStarts);
        EnterAll(handles);
        try
        {
            foreach (var handle in handles)
                take(handle);
            run.Queue(ref starts);
        }
        finally
        {
            foreach (var handle in handles)
                handle.Gate.Exit();
        }

        starts.StartAll();
    }

    // An encoder that hangs has its handle's lock: meanwhile this flow waits, and the users of the other handles don't.
    private static void EnterAll(HandleBuffer[] handles)
    {
        for (var entered = 0; entered < handles.Length; entered++)
        {
            var gate = handles[entered].Gate;
            if (gate.TryEnter(HandleBuffer.LongestWaitMilliseconds))
                continue;
            foreach (var handle in handles.AsSpan(0, entered))
                handle.Gate.Exit();
            gate.Enter();
            gate.Exit();
            entered = -1;
        }
    }
}

/// <summary>An ambient scope's limit. An object of its own, because most ambient scopes have none.</summary>
internal sealed class AmbientLimit(TimeSpan maxHold) : ITimedHold
{
    public TimeSpan MaxHold => maxHold;

    public AmbientScope? Scope { get; set; }

    /// <summary>True while the hold queue has it. Guarded by the scope's lock.</summary>
    public bool IsTimed { get; set; }

    /// <inheritdoc/>
    public int HoldPlace { get; set; }

    public void OnDue() => Scope!.OnDue();
}

/// <summary>What the end of one of a flow's nested ambient scopes closes.</summary>
internal enum AmbientEnd
{
    /// <summary>Nothing: it was closed before.</summary>
    OfNone,

    /// <summary>Itself: others are open.</summary>
    OfOne,

    /// <summary>All: it was the last.</summary>
    OfAll,
}

/// <summary>The ambient scopes of one buffer: at most one outermost scope per async flow.</summary>
internal sealed class AmbientScopes(BufferSettings settings, HoldQueue holds)
{
    private readonly AsyncLocal<AmbientScope?> _current = new();

    // Lets a write skip the look-up of its flow's scope while no ambient scope is open anywhere.
    private int _open;

    public BufferSettings Settings => settings;

    /// <summary>The calling flow's scope, while it is open.</summary>
    public AmbientScope? Current => Volatile.Read(ref _open) != 0 && _current.Value is { IsOpen: true } scope ? scope : null;

    public BufferingScope Open(string openerFile, int openerLine, TimeSpan maxHold)
    {
        EncoderGuard.ThrowIfEncoding();
        if (Current?.TryNest() is { } nested)
            return nested;
        Interlocked.Increment(ref _open);
        var limit = maxHold == TimeSpan.Zero ? null : new AmbientLimit(maxHold);
        var scope = new AmbientScope(this, openerFile, openerLine, limit);
        if (limit is not null)
            limit.Scope = scope;
        _current.Value = scope;
        return new BufferingScope(scope, AmbientScope.OutermostVersion);
    }

    public void Hold(AmbientLimit limit) => holds.Add(limit, holds.Clock.After(limit.MaxHold));

    public void EndHold(AmbientLimit limit) => holds.Remove(limit);

    public void OnClosed(AmbientScope scope)
    {
        Interlocked.Decrement(ref _open);
        if (ReferenceEquals(_current.Value, scope))
            _current.Value = null;
    }
}
