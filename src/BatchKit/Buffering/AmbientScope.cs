using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>An async flow's scope on every handle it writes to. Never pooled: a task that outlives it would join the next one.</summary>
internal sealed class AmbientScope(AmbientScopes owner, string openerFile, int openerLine) : IScopeToken
{
    public const long OutermostVersion = 0;

    private readonly Lock _gate = new();

    // Guarded by _gate, inside which a handle's lock may be taken.
    private HandleBuffer? _firstHandle;
    private BufferingScope _firstScope;
    private Dictionary<HandleBuffer, BufferingScope>? _moreScopes;
    private NestedScopes? _nested;
    private bool _outermostIsClosed;
    private volatile bool _isClosed;

    public bool IsOpen => !_isClosed;

    /// <summary>Takes a scope on a handle at the flow's first write to it.</summary>
    public void Cover(HandleBuffer handle)
    {
        lock (_gate)
        {
            if (_isClosed || ReferenceEquals(_firstHandle, handle) || _moreScopes?.ContainsKey(handle) == true)
                return;

            // Retired meanwhile: the write looks the handle up again and covers the new one.
            if (handle.OpenScope(openerFile, openerLine) is not { } scope)
                return;
            if (_firstHandle is null)
                (_firstHandle, _firstScope) = (handle, scope);
            else
                (_moreScopes ??= []).Add(handle, scope);
        }
    }

    /// <returns>Null when the scope has closed meanwhile.</returns>
    public BufferingScope? TryNest()
    {
        lock (_gate)
        {
            if (_isClosed)
                return null;
            return new BufferingScope(this, (_nested ??= new NestedScopes()).Open());
        }
    }

    public void Close(long version)
    {
        if (!TryEnd(version))
            return;
        if (_moreScopes is null)
        {
            _firstScope.Dispose();
            return;
        }

        var held = HoldPartitions(_moreScopes);
        _firstScope.Dispose();
        foreach (var scope in _moreScopes.Values)
            scope.Dispose();
        Release(held);
    }

    public ValueTask CloseAsync(long version)
    {
        if (!TryEnd(version))
            return default;
        return _moreScopes is null ? _firstScope.DisposeAsync() : CloseAllAsync(_moreScopes);
    }

    private ValueTask CloseAllAsync(Dictionary<HandleBuffer, BufferingScope> moreScopes)
    {
        var held = HoldPartitions(moreScopes);
        var closings = new List<Task>(moreScopes.Count + 1) { _firstScope.DisposeAsync().AsTask() };
        foreach (var scope in moreScopes.Values)
            closings.Add(scope.DisposeAsync().AsTask());
        Release(held);
        return new ValueTask(Task.WhenAll(closings));
    }

    private bool TryEnd(long version)
    {
        lock (_gate)
        {
            if (version == OutermostVersion ? _outermostIsClosed : _nested?.Close(version) != true)
                return false;
            _outermostIsClosed |= version == OutermostVersion;
            if (!_outermostIsClosed || _nested?.Count > 0)
                return false;
            _isClosed = true;
        }

        owner.OnClosed(this);
        return true;
    }

    // From here on the scope is closed, so its fields no longer change. One handle needs no hold: its output is queued in one step.
    private HashSet<DispatchPartition> HoldPartitions(Dictionary<HandleBuffer, BufferingScope> moreScopes)
    {
        var partitions = new HashSet<DispatchPartition>(_firstHandle!.Partitions);
        foreach (var handle in moreScopes.Keys)
            partitions.UnionWith(handle.Partitions);
        foreach (var partition in partitions)
            partition.Hold();
        return partitions;
    }

    private static void Release(HashSet<DispatchPartition> held)
    {
        foreach (var partition in held)
        {
            if (partition.ReleaseHold())
                partition.Start();
        }
    }
}
