using BatchKit.Batches;

namespace BatchKit.Dispatch;

/// <summary>One ordered part of a route: has one send in flight and gives it every batch that waits, up to the limits.</summary>
internal sealed class DispatchPartition : IThreadPoolWorkItem, ITimedHold, IDroppingQueue, IAsyncDisposable
{
    // Otherwise a slow transport would keep one caller sending for all others (4,869 sends in one call were measured).
    private const int MaxRoundsPerCall = 4;

    // A write that comes sooner after the last send belongs to a loop, whose writes gather for a sender on the pool. A loop writes again after less than a
    // microsecond; a client that answers takes at least the 24 µs of a loopback round trip.
    private static readonly TimeSpan LoopGap = TimeSpan.FromMicroseconds(10);

    private static readonly ContextCallback RunLoopCallback = static state => ((DispatchPartition)state!).RunLoop();

    private readonly BufferSettings _settings;
    private readonly HoldQueue _holds;
    private readonly PartitionSender _sender;
    private readonly bool _sendsInline;

    // Guarded by _gate. It is taken inside a handle's lock, and only the hold queue's lock is taken inside it.
    private readonly Lock _gate = new();
    private BatchQueue _queue;
    private bool _isSending;
    private Queue<(long Place, long Ends)>? _lingering;
    private bool _isTimed;
    private bool _isUnscoped;
    private long _sentAt;
    private TaskCompletionSource? _idle;

    // Owned by the starter, from the moment that it sets _isSending until it has called Start.
    private bool _startsInline;

    // Written by the sender alone; DisposeAsync awaits it.
    private Task _loop = Task.CompletedTask;

    // Guarded by _evictionGate.
    private readonly Lock _evictionGate = new();
    private readonly PartitionCounters _evicted = new();

    public DispatchPartition(BufferSettings settings, HoldQueue holds, OutputRoute route, PartitionIdentity identity, RouteBudget budget)
    {
        Budget = budget;
        _settings = settings;
        _holds = holds;
        _sendsInline = route.Transport.SendsWithoutBlocking;
        _sender = new PartitionSender(settings, route, identity, _gate);
        if (!settings.Lingers)
            _queue.Release(long.MaxValue);
    }

    public int HoldPlace { get; set; }

    public string RouteName => _sender.RouteName;

    public int MaxBatchBytes => _sender.MaxBatchBytes;

    public long Sends => _sender.Counters.Sends;

    public long FailedSends => _sender.Counters.FailedSends;

    public long UnscopedBatches => _sender.Counters.UnscopedBatches + _evicted.UnscopedBatches;

    public PartitionFailure? Failure => _sender.Failure;

    /// <summary>The part of the capacity that its route has.</summary>
    public RouteBudget Budget { get; }

    /// <summary>True when the caller that must start the sender sends on its own thread. Only that caller may read it, until it has called <see cref="Start"/>.</summary>
    public bool StartsInline => _startsInline;

    /// <inheritdoc cref="BatchQueue.MayGrow"/>
    public bool MayGrow(RoutedBatch batch) => _queue.MayGrow(batch);

    /// <summary>Queues batches that are linked with each other; call it under the handle's lock.</summary>
    /// <param name="first">The first of them.</param>
    /// <param name="last">The last of them.</param>
    /// <param name="isUnscoped">True when no scope held them back: they may linger, or wait for others of the same loop.</param>
    /// <returns>True when the caller must call <see cref="Start"/> once it has released its locks.</returns>
    public bool Enqueue(RoutedBatch first, RoutedBatch last, bool isUnscoped)
    {
        lock (_gate)
        {
            var startsInline = !_isSending && StartsInlineFor(isUnscoped);

            // The caller sends inline, at once. The sender gets the batch here, because queueing it would only mean taking it out again.
            if (startsInline && _queue.First is null && ReferenceEquals(first, last))
            {
                (_startsInline, _isUnscoped) = (true, isUnscoped);
                _sender.Take(first);
                return Begin();
            }

            _queue.AssignPlaces(first);
            if (_settings.Lingers)
                LingerOrRelease(isUnscoped);
            var mustStart = !_isSending && _queue.IsReleased(first);
            _queue.Append(first, last, _settings.DropsOldest ? this : null);
            if (!mustStart)
                return false;
            (_startsInline, _isUnscoped) = (startsInline, isUnscoped);
            return Begin();
        }
    }

    /// <summary>Ends the linger of all that waits.</summary>
    public bool EndLinger()
    {
        lock (_gate)
            return Release(_queue.LastPlace);
    }

    /// <summary>Ends the linger of a batch, and of what is queued before it.</summary>
    public bool EndLinger(RoutedBatch batch)
    {
        lock (_gate)
            return Release(batch.Place);
    }

    /// <summary>Releases what has lingered long enough.</summary>
    public void OnDue()
    {
        var mustStart = false;
        lock (_gate)
        {
            _isTimed = false;
            while (_lingering!.TryPeek(out var next) && _settings.Clock.Until(next.Ends) <= TimeSpan.Zero)
            {
                _lingering.Dequeue();
                mustStart |= Release(next.Place);
            }

            WaitForLinger();
        }

        if (mustStart)
            Start();
    }

    /// <summary>Counts a batch that its writer sealed because it must start the sender. Until it does, it owns the sender's counters.</summary>
    public void CountUnscoped() => _sender.Counters.CountUnscoped(1);

    /// <summary>Sends what waits: on this thread when the transport does not block, otherwise on the pool. Call it outside every lock, once for each call that returned true.</summary>
    public void Start()
    {
        if (_startsInline)
            _settings.SendContext.Run(RunLoopCallback, this);
        else
            Schedule();
    }

    /// <summary>Sends what waits where senders run, whatever the transport declares: the caller must not be blocked by it. Call it in the place of <see cref="Start"/>.</summary>
    public void Schedule() => _settings.Scheduler.Schedule(this);

    void IThreadPoolWorkItem.Execute()
    {
        // The wait for this thread is no part of the time of a send that was taken before.
        lock (_gate)
            _sender.RestartLimit();
        _settings.SendContext.Run(RunLoopCallback, this);
    }

    /// <inheritdoc/>
    public bool TryDrop(RoutedBatch batch, long version)
    {
        lock (_gate)
        {
            if (batch.Queue != this || batch.Content.Version != version)
                return false;
            _queue.Remove(batch);
            CompleteIdleWhenEmpty();
        }

        batch.Content.Ages?.CountLeft(batch.Content);
        var sealedHere = batch.Content.EnsureSealed();
        lock (_evictionGate)
        {
            _evicted.CountUnscoped(sealedHere ? 1 : 0);
            _evicted.Settle(batch, SettlementOutcome.Evicted, failure: null);
        }

        return true;
    }

    public long CountMessages(SettlementOutcome outcome) => _sender.Counters.Messages(outcome) + _evicted.Messages(outcome);

    /// <summary>Messages that wait or are under way here and that no earlier route's partition counts; and the bytes of all that wait or are under way here.</summary>
    public (long Messages, long Bytes) CountPending()
    {
        var (messages, bytes) = _sender.CountPending();
        lock (_gate)
        {
            for (var batch = _queue.First; batch is not null; batch = batch.Next)
            {
                messages += batch.StandsForContent ? batch.Content.Count : 0;
                bytes += batch.Content.Cost;
            }
        }

        return (messages, bytes);
    }

    public Task WhenIdleAsync()
    {
        lock (_gate)
        {
            if (!_isSending && _queue.First is null)
                return Task.CompletedTask;
            return (_idle ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
        }
    }

    /// <summary>Ends the send under way and drops what waits, because the drain limit has passed.</summary>
    public Task AbortAsync()
    {
        var ending = _sender.AbortAsync();
        if (EndLinger())
            Schedule();
        return ending;
    }

    public async ValueTask DisposeAsync()
    {
        await Volatile.Read(ref _loop).ConfigureAwait(false);
        await _sender.DisposeAsync().ConfigureAwait(false);
    }

    private void LingerOrRelease(bool isUnscoped)
    {
        if (!isUnscoped || _sender.IsAborted)
        {
            _queue.Release(_queue.LastPlace);
            return;
        }

        (_lingering ??= new Queue<(long, long)>()).Enqueue((_queue.LastPlace, _settings.Clock.After(_settings.Linger)));
        WaitForLinger();
    }

    // What was released meanwhile needs no timer.
    private void WaitForLinger()
    {
        while (_lingering!.TryPeek(out var released) && released.Place <= _queue.ReleasedPlace)
            _lingering.Dequeue();
        if (_isTimed || !_lingering.TryPeek(out var next))
            return;
        _isTimed = true;
        _holds.Add(this, next.Ends);
    }

    private bool StartsInlineFor(bool isUnscoped) => _sendsInline && (!isUnscoped || (!_settings.Lingers && !IsInLoop()));

    private bool IsInLoop() => _sentAt != 0 && _settings.Clock.ElapsedSince(_sentAt) < LoopGap;

    private bool Release(long place)
    {
        _queue.Release(place);
        if (_isSending || !_queue.HasReleased)
            return false;
        _startsInline = _sendsInline;
        return Begin();
    }

    private bool Begin() => _isSending = true;

    private void RunLoop()
    {
        for (var round = 0; round < MaxRoundsPerCall; round++)
        {
            if (!TryTake())
                return;
            var sending = _sender.SendAsync();
            if (!sending.IsCompletedSuccessfully)
            {
                Volatile.Write(ref _loop, FinishAsync(sending));
                return;
            }
        }

        _settings.Scheduler.Schedule(this);
    }

    // The sender lets no exception out: it fails its batches.
    private async Task FinishAsync(ValueTask sending)
    {
        await sending.ConfigureAwait(false);
        while (TryTake())
            await _sender.SendAsync().ConfigureAwait(false);
    }

    private bool TryTake()
    {
        while (_sender.HasBatches || TakeWaiting())
        {
            if (!_sender.IsAborted)
                return true;
            _sender.DropAll();
        }

        return false;
    }

    /// <summary>Moves what waits into the send, up to its limits, or goes idle.</summary>
    private bool TakeWaiting()
    {
        lock (_gate)
        {
            if (!_queue.HasReleased)
            {
                // A write that comes soon after a loop's send belongs to that loop.
                _sentAt = _sendsInline && _isUnscoped ? _settings.Clock.Now : 0;
                _isSending = false;
                _sender.OnIdle();
                CompleteIdleWhenEmpty();
                return false;
            }

            var (bytes, batches) = (0L, 0);
            do
            {
                var batch = _queue.Dequeue();
                bytes += batch.Content.FrameBytes;
                batches++;
                _sender.Take(batch);
            }
            while (_queue.HasReleased && Fits(_queue.First!, bytes, batches));
            return true;
        }
    }

    // What a scope held leaves in one send: a send does not begin it when only a part of it fits.
    private bool Fits(RoutedBatch next, long bytes, int batches)
    {
        var (maxBytes, maxBatches) = (_sender.MaxSendBytes, _settings.MaxSendBatches);
        if (next.RunLength > 1 && next.RunLength <= maxBatches && next.CountRunBytes() is var runBytes && runBytes <= maxBytes)
            return batches + next.RunLength <= maxBatches && bytes + runBytes <= maxBytes;
        return batches < maxBatches && bytes + next.Content.FrameBytes <= maxBytes;
    }

    private void CompleteIdleWhenEmpty()
    {
        if (_isSending || _queue.First is not null)
            return;
        _idle?.TrySetResult();
        _idle = null;
    }
}
