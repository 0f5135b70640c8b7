using System.Collections.Concurrent;
using System.Runtime.ExceptionServices;
using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>The live handles: created on first use, removed when idle.</summary>
internal sealed class HandleTable(Dispatcher dispatcher, BufferSettings settings, HoldQueue holds)
{
    // Below this, the memory that a once full table keeps is not worth a copy.
    private const int MinShrunkHandles = 16_384;
    private const int ShrinkFactor = 4;

    // Most loops write to one handle, and comparing two is cheaper than a look-up (7 of a write's 28 ns).
    [ThreadStatic]
    private static HandleBuffer? _lastOfThread;

    // Guards additions to the dictionary and removals; a look-up takes no lock.
    private readonly Lock _gate = new();
    private volatile ConcurrentDictionary<OutputHandle, HandleBuffer> _handles = new();
    private HandleStatistics _retired;
    private int _live;
    private int _mostLive;
    private int _createdSinceTrim;
    private volatile bool _isStopped;

    public bool IsStopped => _isStopped;

    public int Live => Volatile.Read(ref _live);

    /// <summary>The handles that may hold something back, for each part of the capacity.</summary>
    public HeldHandles[] Held { get; } = [.. settings.Budget.Parts.Select(_ => new HeldHandles(settings))];

    /// <returns>Null when the buffer has stopped.</returns>
    public HandleBuffer? GetOrAdd(OutputHandle handle) =>
        _lastOfThread is { } last && last.Handle == handle && last.IsUsableIn(settings) ? last : GetOrAddSlow(handle);

    /// <summary>Keeps a handle for a writer that waits for capacity, until it takes itself off <see cref="HandleBudget.Waits"/>.</summary>
    /// <exception cref="ObjectDisposedException">The buffer has stopped.</exception>
    public HandleBuffer BeginWait(OutputHandle handle)
    {
        while (GetOrAdd(handle) is { } buffer)
        {
            lock (buffer.Gate)
            {
                if (!buffer.IsUsableIn(settings))
                    continue;
                buffer.Budget.Waits++;
                return buffer;
            }
        }

        throw Stopped();
    }

    /// <returns>Null when the handle is not in use.</returns>
    public HandleBuffer? TryGet(OutputHandle handle)
    {
        EncoderGuard.ThrowIfEncoding();
        return _handles.GetValueOrDefault(handle);
    }

    /// <summary>Begins to encode a message in place; see <see cref="EncoderGuard"/>. Each look-up of a handle now takes the way that is guarded.</summary>
    public static void BeginEncoding()
    {
        _lastOfThread = null;
        EncoderGuard.Begin();
    }

    /// <summary>The error of a write or scope after the stop.</summary>
    public static ObjectDisposedException Stopped() => new(nameof(OutputBuffer),
        "The output buffer has stopped and takes no more writes. Write before the host stops: hosted services stop in the reverse order of their registration, so register those that write after AddBatchKit.");

    /// <summary>Flushes every handle, and completes when all of it is settled; fails when a message was lost meanwhile.</summary>
    public async ValueTask FlushAllAsync(CancellationToken cancellationToken)
    {
        List<Task>? flushes = null;
        foreach (var (_, handle) in _handles)
        {
            if (!IsFree(handle))
            {
                (flushes ??= []).Add(FlushOnPoolAsync(handle, cancellationToken));
                continue;
            }

            var flush = handle.FlushAsync(ReportedLosses.OfWait, cancellationToken);
            if (!flush.IsCompletedSuccessfully)
                (flushes ??= []).Add(flush.AsTask());
        }

        if (flushes is not null)
            await WhenAllAsync(flushes).ConfigureAwait(false);
    }

    /// <summary>Closes scopes that are too old, and removes handles that were idle for long.</summary>
    public void Sweep(TimeSpan idleTimeout)
    {
        foreach (var (_, handle) in _handles)
        {
            if (!IsFree(handle))
                continue;
            var retires = handle.Sweep(idleTimeout, out var expired, out var overlap);
            if (retires)
                Remove(handle);

            // Logged last, because a logger is foreign code: a writer that meets a retired handle must not wait for it.
            foreach (var scope in expired ?? [])
                settings.Logger.ScopeExpired(settings.LogThrottle, settings.MaxScopeAge, scope.File, scope.Line);
            if (expired is null && overlap is { } last)
                settings.Logger.ScopesOverlapped(settings.LogThrottle, settings.MaxScopeAge, last.File, last.Line);
        }

        Shrink();
    }

    /// <summary>Stops all handles, and completes when all that they had is settled.</summary>
    public async Task DrainAsync()
    {
        _isStopped = true;
        List<Task>? late = null;
        foreach (var (_, handle) in _handles)
        {
            if (IsFree(handle))
                handle.Stop();
            else
                (late ??= []).Add(StopOnPoolAsync(handle));
        }

        if (late is not null)
            await Task.WhenAll(late).ConfigureAwait(false);
        await dispatcher.WhenIdleAsync().ConfigureAwait(false);
    }

    public HandleStatistics GetStatistics()
    {
        EncoderGuard.ThrowIfEncoding();
        HandleStatistics total;
        ICollection<HandleBuffer> handles;

        // In one step, so that a handle that is removed meanwhile is counted, and counted once.
        lock (_gate)
            (total, handles) = (_retired, _handles.Values);
        foreach (var handle in handles)
            total = Sum(total, handle.GetStatistics());
        return total;
    }

    /// <summary>Completes when all flushes have, and reports all losses in one exception: a caller that awaits several exceptions sees only the first. A loss counts for more than a cancellation.</summary>
    public static async ValueTask WhenAllAsync(List<Task> flushes)
    {
        var lost = 0L;
        Exception? cause = null;
        OperationCanceledException? cancellation = null;
        foreach (var flush in flushes)
        {
            try
            {
                await flush.ConfigureAwait(false);
            }
            catch (OutputDeliveryException loss)
            {
                lost += loss.LostMessages;
                cause ??= loss.InnerException;
            }
            catch (OperationCanceledException canceled)
            {
                cancellation = canceled;
            }
        }

        if (lost > 0)
            throw new LossReport(lost, cause).ToException();
        if (cancellation is not null)
            ExceptionDispatchInfo.Throw(cancellation);
    }

    /// <summary>False while an encoder that hangs has its handle's lock: neither the other handles, nor the caller, nor the next ticks wait for it.</summary>
    public static bool IsFree(HandleBuffer handle, int waitMilliseconds = 0)
    {
        if (!handle.Gate.TryEnter(waitMilliseconds))
            return false;
        handle.Gate.Exit();
        return true;
    }

    // The wait can be cancelled; the flush itself happens when the lock is free.
    private static Task FlushOnPoolAsync(HandleBuffer handle, CancellationToken cancellationToken)
    {
        var flush = Task.Run(
            async () =>
            {
                // No one waits any more to whom a loss could be reported.
                if (cancellationToken.IsCancellationRequested)
                    handle.Flush(FlushReason.Requested);
                else
                    await handle.FlushAsync(ReportedLosses.OfWait, cancellationToken).ConfigureAwait(false);
            },
            CancellationToken.None);
        _ = flush.ContinueWith(static ended => ended.Exception, CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously, TaskScheduler.Default);
        return flush.WaitAsync(cancellationToken);
    }

    private static async Task StopOnPoolAsync(HandleBuffer handle)
    {
        await Task.CompletedTask.ConfigureAwait(ConfigureAwaitOptions.ForceYielding);
        handle.Stop();
    }

    private HandleBuffer? GetOrAddSlow(OutputHandle handle)
    {
        EncoderGuard.ThrowIfEncoding();
        if (_isStopped)
            return null;
        var found = _handles.TryGetValue(handle, out var known) ? known : Add(handle);
        _lastOfThread = found;
        return found;
    }

    private HandleBuffer? Add(OutputHandle handle)
    {
        if (handle.IsNone)
            throw new ArgumentException("The handle is default and names no destination. Use OutputHandle.Connection or OutputHandle.Named.", nameof(handle));
        if (Live > settings.MaxIdleHandles)
            Trim();

        // Called outside the lock, because a router is foreign code.
        var partitions = dispatcher.PartitionsOf(handle);
        HandleBuffer kept;
        lock (_gate)
        {
            if (!_handles.TryGetValue(handle, out kept!))
            {
                var budget = dispatcher.BudgetOf(partitions);
                kept = new HandleBuffer(handle, partitions, budget, settings, Held[budget.Index], holds);
                _handles.TryAdd(handle, kept);
                _mostLive = Math.Max(_mostLive, ++_live);
            }
        }

        // A stop that began meanwhile may have walked the table before this handle was in it.
        if (!_isStopped)
            return kept;
        kept.Stop();
        return null;
    }

    // A trim walks all handles, so it pays only after a share of them is new: also when none may be idle, and all are in use.
    private void Trim()
    {
        if (Interlocked.Increment(ref _createdSinceTrim) <= Math.Max(settings.MaxIdleHandles, Live) / 8)
            return;
        Interlocked.Exchange(ref _createdSinceTrim, 0);
        Sweep(TimeSpan.Zero);
    }

    private void Remove(HandleBuffer handle)
    {
        Held[handle.Budget.Route.Index].Remove(handle);
        lock (_gate)
        {
            _retired = Sum(_retired, handle.GetStatistics());
            if (_handles.TryRemove(new KeyValuePair<OutputHandle, HandleBuffer>(handle.Handle, handle)))
                _live--;
        }
    }

    // A dictionary keeps the memory of its largest size; a copy takes what it needs.
    private void Shrink()
    {
        lock (_gate)
        {
            if (_mostLive < MinShrunkHandles || _mostLive / ShrinkFactor < _live)
                return;
            _mostLive = _live;
            _handles = new ConcurrentDictionary<OutputHandle, HandleBuffer>(_handles);
        }
    }

    public static HandleStatistics Sum(HandleStatistics left, HandleStatistics right) => new(
        left.AcceptedMessages + right.AcceptedMessages, left.AcceptedBytes + right.AcceptedBytes, left.SupersededMessages + right.SupersededMessages,
        left.HeldMessages + right.HeldMessages, left.OpenScopes + right.OpenScopes);
}

/// <summary>One handle's part of the buffer's statistics.</summary>
internal readonly record struct HandleStatistics(long AcceptedMessages, long AcceptedBytes, long SupersededMessages, int HeldMessages, int OpenScopes);

/// <summary>Ticks the coarse clock, closes scopes that are too old, removes idle handles, and logs what was held back.</summary>
internal sealed class BufferWatch : IAsyncDisposable
{
    private static readonly TimeSpan LongestInterval = TimeSpan.FromSeconds(1);

    private readonly HandleTable _handles;
    private readonly BufferSettings _settings;
    private readonly TimeSpan _interval;
    private readonly ITimer _timer;

    public BufferWatch(HandleTable handles, BufferSettings settings)
    {
        _handles = handles;
        _settings = settings;
        _interval = IntervalFor(settings);
        _timer = settings.Clock.CreateTimer(static state => ((BufferWatch)state!).OnTick(), this);
        _timer.Change(_interval, _interval);
    }

    public ValueTask DisposeAsync() => _settings.Clock.EndAsync(_timer);

    // An eighth of the shortest span that is measured with the coarse clock.
    private static TimeSpan IntervalFor(BufferSettings settings)
    {
        var shortest = new[] { settings.MaxScopeAge, settings.HandleIdleTimeout, settings.DeliveryTimeout }.Min() / 8;
        return shortest < LongestInterval ? shortest : LongestInterval;
    }

    private void OnTick()
    {
        _settings.Clock.Tick(_interval);
        _handles.Sweep(_settings.HandleIdleTimeout);
        _settings.LogThrottle.Flush();
    }
}
