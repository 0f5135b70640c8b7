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
    private LingerQueue _lingering;
    private bool _isTimed;
    private bool _isUnscoped;
    private bool _triesHeldNext;
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

    public (long All, long Failed) Sends => (_sender.Counters.Sends, _sender.Counters.FailedSends);

    public long UnscopedBatches => _sender.Counters.UnscopedBatches + _evicted.UnscopedBatches;

    public PartitionHealth Health => _sender.Health;

    /// <summary>The receivers that have taken nothing for longest, although the route works; null when there are none.</summary>
    public PartitionFailure? Busy => _sender.Held.Longest;

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
            if (startsInline && IsEmpty && ReferenceEquals(first, last))
            {
                (_startsInline, _isUnscoped, first.Place) = (true, isUnscoped, _queue.LastPlace);
                _sender.Take(first);
                return Begin();
            }

            _queue.AssignPlaces(first, _settings.GroupChanges);
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

    /// <summary>Ends the linger of a batch, and of what is queued before it; of all that waits when null.</summary>
    public bool EndLinger(RoutedBatch? batch = null)
    {
        lock (_gate)
            return Release(batch?.Place ?? _queue.LastPlace);
    }

    /// <summary>Releases what has lingered long enough, and tries again what a busy receiver did not take.</summary>
    public void OnDue()
    {
        bool mustStart;
        lock (_gate)
        {
            _isTimed = false;
            mustStart = Release(_lingering.TakeEnded(_queue.ReleasedPlace, _settings.Clock));
            WaitForTime();
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
        lock (_gate)
        {
            var (sent, held, queued) = (_sender.CountPending(), _sender.Held.CountPending(), _queue.CountPending());
            return (sent.Messages + held.Messages + queued.Messages, sent.Bytes + held.Bytes + queued.Bytes);
        }
    }

    public Task WhenIdleAsync()
    {
        lock (_gate)
        {
            if (!_isSending && IsEmpty)
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
        // What still sends after the stop is a transport that blocks its thread: the buffer ends without it.
        await (Volatile.Read(ref _isSending) ? Task.CompletedTask : Volatile.Read(ref _loop)).ConfigureAwait(false);
        await _sender.DisposeAsync().ConfigureAwait(false);
    }

    private void LingerOrRelease(bool isUnscoped)
    {
        if (!isUnscoped || _sender.IsAborted)
        {
            _queue.Release(_queue.LastPlace);
            return;
        }

        _lingering.Add(_queue.LastPlace, _settings.Clock.After(_settings.Linger));
        WaitForTime();
    }

    private void WaitForTime()
    {
        if (!_isTimed && _lingering.FindNextEnd(_queue.ReleasedPlace) is { } ends)
        {
            _isTimed = true;
            _holds.Add(this, ends);
        }

        if (!_isSending && _sender.Held.Due is { } due)
            _holds.Add(this, due);
    }

    private bool StartsInlineFor(bool isUnscoped) => _sendsInline && (!isUnscoped || (!_settings.Lingers && !IsInLoop()));

    private bool IsInLoop() => _sentAt != 0 && _settings.Clock.ElapsedSince(_sentAt) < LoopGap;

    private bool Release(long place)
    {
        _queue.Release(place);
        if (_isSending || !(_queue.HasReleased || _sender.Held.IsDue(_sender.IsAborted)))
            return false;
        _startsInline = _sendsInline;
        return Begin();
    }

    private bool IsEmpty => _queue.First is null && _sender.Held.IsEmpty;

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
            // They take turns: so many receivers may be busy that one of them is due at any time.
            _triesHeldNext = !_triesHeldNext;
            if ((_triesHeldNext && TakeHeld()) || TakeQueued() || TakeHeld())
                return true;
            GoIdle();
            return false;
        }
    }

    private bool TakeHeld()
    {
        var isTaken = _sender.TakeHeld();
        if (isTaken)
            _queue.Rewind();
        return isTaken;
    }

    private bool TakeQueued()
    {
        var bytes = 0L;
        while (SkipBusy() && (!_sender.HasBatches || _queue.NextFits(bytes, _sender.Batches, _sender.MaxSendBytes, _settings.MaxSendBatches)))
        {
            bytes += _queue.Next!.Content.FrameBytes;
            _sender.Take(_queue.Dequeue());
        }

        return _sender.HasBatches;
    }

    // False when nothing is left that may be sent now.
    private bool SkipBusy()
    {
        while (_queue.HasReleased && _sender.Held.MustWait(_queue.Next!))
            _queue.Pass();
        return _queue.HasReleased;
    }

    private void GoIdle()
    {
        // A write that comes soon after a loop's send belongs to that loop.
        _sentAt = _sendsInline && _isUnscoped ? _settings.Clock.Now : 0;
        _isSending = false;
        _sender.OnIdle();
        CompleteIdleWhenEmpty();
        WaitForTime();
    }

    private void CompleteIdleWhenEmpty()
    {
        if (_isSending || !IsEmpty)
            return;
        Interlocked.Exchange(ref _idle, null)?.TrySetResult();
    }
}
