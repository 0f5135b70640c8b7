using BatchKit.Batches;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>An async flow's scope on every handle it writes to. Never pooled: a task that outlives it would join the next one.</summary>
internal sealed class AmbientScope(AmbientScopes owner, ScopeOpening opening) : IScopeToken, ITimedHold
{
    public const long OutermostVersion = 0;

    private readonly Lock _gate = new();

    // Guarded by _gate, inside which a handle's lock may be taken.
    private HandleBuffer? _firstHandle;
    private BufferingScope _firstScope;
    private Dictionary<HandleBuffer, BufferingScope>? _moreScopes;
    private HashSet<long>? _nested;
    private long _lastNested = OutermostVersion;
    private bool _outermostIsClosed;
    private bool _isTimed;
    private volatile bool _isClosed;

    // Written under _gate. A look outside it is a hint that is right for the flow's own writes.
    private HandleBuffer? _lastWritten;

    public bool IsOpen => !_isClosed;

    /// <summary>Takes a scope on a handle at the flow's first write to it.</summary>
    /// <returns>True when the flow wrote to another handle since: the message needs a batch behind that output.</returns>
    public bool Cover(HandleBuffer handle)
    {
        if (ReferenceEquals(Volatile.Read(ref _lastWritten), handle))
            return false;
        var starts = default(SenderStarts);
        lock (_gate)
        {
            if (_isClosed || !TryTake(handle, ref starts))
                return false;
            Volatile.Write(ref _lastWritten, handle);
            if (opening.HasLimit && !_isTimed)
            {
                _isTimed = true;
                owner.Hold(this, opening.MaxHold);
            }
        }

        starts.StartAll();
        return true;
    }

    /// <returns>Null when the scope has closed meanwhile.</returns>
    public BufferingScope? TryNest()
    {
        lock (_gate)
        {
            if (_isClosed)
                return null;
            (_nested ??= []).Add(++_lastNested);
            return new BufferingScope(this, _lastNested);
        }
    }

    public void Close(long version)
    {
        if (!TryEnd(version))
            return;
        if (_moreScopes is null)
            _firstScope.Dispose();
        else
            CloseAll(waits: false);
    }

    public ValueTask CloseAsync(long version)
    {
        if (!TryEnd(version))
            return default;
        return _moreScopes is null ? _firstScope.DisposeAsync() : WaitForAllAsync(CloseAll(waits: true));
    }

    /// <summary>The limit has passed since the first message: queues what is held, and goes on.</summary>
    public void OnDue()
    {
        HandleBuffer[] handles;
        lock (_gate)
        {
            _isTimed = false;
            _lastWritten = null;
            if (_isClosed)
                return;
            handles = Handles();
        }

        var run = new OutputRun();
        UnderAllGates(handles, run, handle => handle.FlushInto(run, FlushReason.HoldLimit));
    }

    // Retired meanwhile: the write looks the handle up again, and covers the new one.
    private bool TryTake(HandleBuffer handle, ref SenderStarts starts)
    {
        if (ReferenceEquals(_firstHandle, handle) || _moreScopes?.ContainsKey(handle) == true)
            return true;
        if (handle.OpenScope(opening, ref starts) is not { } scope)
            return false;
        if (_firstHandle is null)
            (_firstHandle, _firstScope) = (handle, scope);
        else
            (_moreScopes ??= []).Add(handle, scope);
        return true;
    }

    private bool TryEnd(long version)
    {
        lock (_gate)
        {
            if (version == OutermostVersion ? _outermostIsClosed : _nested?.Remove(version) != true)
                return false;
            _outermostIsClosed |= version == OutermostVersion;
            if (!_outermostIsClosed || _nested?.Count > 0)
                return false;
            _isClosed = true;
        }

        owner.OnClosed(this);
        return true;
    }

    // From here on the scope is closed, so its fields no longer change.
    private List<(HandleBuffer Handle, FlushWaiter Waiter)> CloseAll(bool waits)
    {
        var waiters = new List<(HandleBuffer, FlushWaiter)>();
        var run = new OutputRun();
        UnderAllGates(Handles(), run, handle =>
        {
            var scope = ReferenceEquals(handle, _firstHandle) ? _firstScope : _moreScopes![handle];
            if (scope.CloseInto(handle, run, waits) is { } waiter)
                waiters.Add((handle, waiter));
        });
        return waiters;
    }

    private HandleBuffer[] Handles() => _firstHandle is null ? [] : _moreScopes is null ? [_firstHandle] : [_firstHandle, .. _moreScopes.Keys];

    // All locks at once, so that no other writer's output gets between what the scope held: in the order of the handles' ids, or two scopes could wait for each other.
    private static void UnderAllGates(HandleBuffer[] handles, OutputRun run, Action<HandleBuffer> take)
    {
        Array.Sort(handles, static (left, right) => left.Id.CompareTo(right.Id));
        var starts = default(SenderStarts);
        foreach (var handle in handles)
            handle.EnterGate();
        try
        {
            foreach (var handle in handles)
                take(handle);
            run.Queue(ref starts);
        }
        finally
        {
            foreach (var handle in handles)
                handle.ExitGate();
        }

        starts.StartAll();
    }

    private static async ValueTask WaitForAllAsync(List<(HandleBuffer Handle, FlushWaiter Waiter)> waiters)
    {
        var lost = 0L;
        Exception? cause = null;
        foreach (var (handle, waiter) in waiters)
        {
            try
            {
                await handle.EndWait(waiter, CancellationToken.None).ConfigureAwait(false);
            }
            catch (OutputDeliveryException loss)
            {
                lost += loss.LostMessages;
                cause ??= loss.InnerException;
            }
        }

        if (lost > 0)
            throw HandleSettlement.ErrorFor(lost, cause);
    }
}

/// <summary>The ambient scopes of one buffer: at most one outermost scope an async flow.</summary>
internal sealed class AmbientScopes(BufferClock clock, HoldQueue holds)
{
    private readonly AsyncLocal<AmbientScope?> _current = new();

    // Lets a write skip the look at its flow while no ambient scope is open anywhere.
    private int _open;

    /// <summary>The calling flow's scope, while it is open.</summary>
    public AmbientScope? Current => Volatile.Read(ref _open) != 0 && _current.Value is { IsOpen: true } scope ? scope : null;

    public BufferingScope Open(in ScopeOpening opening)
    {
        if (Current?.TryNest() is { } nested)
            return nested;
        Interlocked.Increment(ref _open);
        var scope = new AmbientScope(this, opening);
        _current.Value = scope;
        return new BufferingScope(scope, AmbientScope.OutermostVersion);
    }

    public void Hold(AmbientScope scope, TimeSpan time) => holds.Add(scope, clock.After(time));

    public void OnClosed(AmbientScope scope)
    {
        Interlocked.Decrement(ref _open);
        if (ReferenceEquals(_current.Value, scope))
            _current.Value = null;
    }
}
