using System.Collections.Concurrent;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>The live handles: made on first use, given up when idle.</summary>
internal sealed class HandleTable(Dispatcher dispatcher, BufferingSettings settings)
{
    // A loop mostly writes to one handle, and comparing two is cheaper than a look-up (7 of a write's 28 ns).
    [ThreadStatic]
    private static HandleBuffer? _lastOfThread;

    private readonly ConcurrentDictionary<OutputHandle, HandleBuffer> _handles = new();
    private readonly Lock _retiredGate = new();
    private HandleStatistics _retired;
    private int _live;
    private int _createdSinceTrim;
    private volatile bool _isStopped;

    public bool IsStopped => _isStopped;

    public int Live => Volatile.Read(ref _live);

    /// <returns>Null when the buffer has stopped.</returns>
    public HandleBuffer? Find(OutputHandle handle) =>
        _lastOfThread is { } last && last.Handle == handle && last.IsUsableIn(settings) ? last : FindSlow(handle);

    /// <returns>Null when the handle is not in use.</returns>
    public HandleBuffer? Peek(OutputHandle handle) => _handles.GetValueOrDefault(handle);

    public void FlushAll(FlushReason reason)
    {
        foreach (var (_, handle) in _handles)
            handle.Flush(reason);
    }

    /// <summary>The same, and completes when all of it is settled; fails with the first flush that was given up.</summary>
    public async ValueTask FlushAllAsync(FlushReason reason, CancellationToken cancellationToken)
    {
        List<Task>? flushes = null;
        foreach (var (_, handle) in _handles)
        {
            var flush = handle.FlushAsync(reason, cancellationToken);
            if (!flush.IsCompletedSuccessfully)
                (flushes ??= []).Add(flush.AsTask());
        }

        if (flushes is not null)
            await Task.WhenAll(flushes).ConfigureAwait(false);
    }

    /// <summary>The handle whose scope has held something back for longest; null when nothing is held.</summary>
    public HandleBuffer? FindOldestHeld()
    {
        HandleBuffer? oldest = null;
        var oldestOrder = long.MaxValue;
        foreach (var (_, handle) in _handles)
        {
            if (handle.FindHeldOrder() is { } order && order < oldestOrder)
                (oldest, oldestOrder) = (handle, order);
        }

        return oldest;
    }

    /// <summary>Closes scopes that are too old and gives up handles that were idle for long.</summary>
    public void Sweep(TimeSpan idleTimeout)
    {
        foreach (var (key, handle) in _handles)
        {
            if (handle.Sweep(idleTimeout))
                Remove(key, handle);
        }
    }

    public void Stop()
    {
        _isStopped = true;
        foreach (var (_, handle) in _handles)
            handle.Stop();
    }

    public HandleStatistics GetStatistics()
    {
        HandleStatistics total;
        lock (_retiredGate)
            total = _retired;
        foreach (var (_, handle) in _handles)
            total = Sum(total, handle.GetStatistics());
        return total;
    }

    private HandleBuffer? FindSlow(OutputHandle handle)
    {
        if (_isStopped)
            return null;
        var found = _handles.TryGetValue(handle, out var known) ? known : Create(handle);
        _lastOfThread = found;
        return found;
    }

    private HandleBuffer? Create(OutputHandle handle)
    {
        if (handle.IsNone)
            throw new ArgumentException("The handle is default and names no destination.", nameof(handle));
        if (Live > settings.Options.MaxIdleHandles)
            Trim();
        var made = new HandleBuffer(handle, dispatcher.PartitionsOf(handle), settings);
        var kept = _handles.GetOrAdd(handle, made);
        if (ReferenceEquals(kept, made))
            Interlocked.Increment(ref _live);

        // A stop that began meanwhile may have gone through the table before this one was in it.
        if (!_isStopped)
            return kept;
        kept.Stop();
        return null;
    }

    // A trim walks all handles, so it pays only after a share of them is new.
    private void Trim()
    {
        if (Interlocked.Increment(ref _createdSinceTrim) <= settings.Options.MaxIdleHandles / 8)
            return;
        Interlocked.Exchange(ref _createdSinceTrim, 0);
        Sweep(TimeSpan.Zero);
    }

    private void Remove(OutputHandle key, HandleBuffer handle)
    {
        lock (_retiredGate)
            _retired = Sum(_retired, handle.GetStatistics());
        _handles.TryRemove(new KeyValuePair<OutputHandle, HandleBuffer>(key, handle));
        Interlocked.Decrement(ref _live);
    }

    private static HandleStatistics Sum(HandleStatistics left, HandleStatistics right) => new(
        left.AcceptedMessages + right.AcceptedMessages, left.AcceptedBytes + right.AcceptedBytes,
        left.HeldMessages + right.HeldMessages, left.OpenScopes + right.OpenScopes);
}
