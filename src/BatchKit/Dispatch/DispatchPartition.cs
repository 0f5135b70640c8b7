namespace BatchKit.Dispatch;

/// <summary>One ordered lane of a route: has one send in flight and gives it every batch that waits, up to the limits.</summary>
internal sealed class DispatchPartition(DispatchSettings settings, string routeName, bool sendsInline, PartitionSender sender)
    : IThreadPoolWorkItem, IAsyncDisposable
{
    // A slow transport would otherwise capture one caller into sending for everyone (4,869 sends in one call were seen).
    private const int MaxRoundsPerCall = 4;

    private static readonly ContextCallback RunLoopCallback = static state => ((DispatchPartition)state!).RunLoop();

    // Guarded by _gate, which is taken inside a handle's lock and takes none itself.
    private readonly Lock _gate = new();
    private BatchQueue _queue;
    private bool _isSending;
    private int _holds;
    private TaskCompletionSource? _idle;

    // The sender's alone; Dispose awaits it.
    private Task _loop = Task.CompletedTask;

    // Guarded by _evictionGate.
    private readonly Lock _evictionGate = new();
    private readonly PartitionCounters _evicted = new();

    public string RouteName => routeName;

    public bool SendsInline => sendsInline;

    public long Sends => sender.Counters.Sends;

    public long FailedSends => sender.Counters.FailedSends;

    public long UnscopedBatches => sender.Counters.UnscopedBatches + _evicted.UnscopedBatches;

    public PartitionFailure? Failure => sender.Failure;

    /// <summary>The place in the buffer's order of the batch that waits longest; null when none waits.</summary>
    public long? OldestOrder
    {
        get
        {
            lock (_gate)
                return _queue.First?.Content.Order;
        }
    }

    /// <summary>Queues a batch; call it under the handle's lock.</summary>
    /// <returns>True when the caller must call <see cref="Start"/> once it has left that lock.</returns>
    public bool Enqueue(RoutedBatch batch)
    {
        lock (_gate)
        {
            if (_isSending || _holds > 0)
            {
                _queue.Enqueue(batch);
                return false;
            }

            // An inline sender is this caller, and comes at once: what it would take out again it gets here, and the lock is not taken twice.
            if (sendsInline && _queue.IsEmpty)
                sender.Send.Add(batch);
            else
                _queue.Enqueue(batch);
            return _isSending = true;
        }
    }

    /// <summary>Counts a batch that its writer sealed because it must start the sender: until then the sender's counters are the writer's.</summary>
    public void CountUnscoped() => sender.Counters.CountUnscoped(1);

    /// <summary>Sends what waits: on this thread where the transport does not block, else on the pool.</summary>
    public void Start()
    {
        if (sendsInline)
            settings.SendContext.Run(RunLoopCallback, this);
        else
            settings.Scheduler.Schedule(this);
    }

    void IThreadPoolWorkItem.Execute() => settings.SendContext.Run(RunLoopCallback, this);

    /// <summary>Lets batches gather, so that they leave in one send.</summary>
    public void Hold()
    {
        lock (_gate)
            _holds++;
    }

    /// <inheritdoc cref="Enqueue" path="/returns"/>
    public bool ReleaseHold()
    {
        lock (_gate)
        {
            _holds--;
            if (_holds > 0 || _isSending || _queue.IsEmpty)
                return false;
            return _isSending = true;
        }
    }

    /// <summary>Drops the batch that waits longest.</summary>
    /// <returns>False when none waits.</returns>
    public bool TryDropOldest()
    {
        RoutedBatch batch;
        lock (_gate)
        {
            if (_queue.IsEmpty)
                return false;
            batch = _queue.Dequeue();
        }

        var sealedHere = batch.Content.EnsureSealed();
        lock (_evictionGate)
        {
            _evicted.CountUnscoped(sealedHere ? 1 : 0);
            OutgoingSend.Settle(batch, Settled.Evicted, failure: null, _evicted);
        }

        return true;
    }

    public long CountMessages(Settled outcome) => sender.Counters.Messages(outcome) + _evicted.Messages(outcome);

    /// <summary>Messages that wait or are under way here and that no earlier route's partition counts.</summary>
    public long CountPendingMessages()
    {
        var pending = sender.Send.CountPendingMessages();
        lock (_gate)
        {
            for (var batch = _queue.First; batch is not null; batch = batch.Next)
                pending += batch.StandsForContent ? batch.Content.Count : 0;
        }

        return pending;
    }

    public Task WhenIdleAsync()
    {
        lock (_gate)
        {
            if (!_isSending && _queue.IsEmpty)
                return Task.CompletedTask;
            return (_idle ??= new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously)).Task;
        }
    }

    /// <summary>The drain limit has passed: ends the send under way and drops what waits.</summary>
    public void Abort()
    {
        sender.Abort();
        lock (_gate)
        {
            if (_isSending || _queue.IsEmpty)
                return;
            _isSending = true;
        }

        Start();
    }

    public async ValueTask DisposeAsync()
    {
        await Volatile.Read(ref _loop).ConfigureAwait(false);
        await sender.DisposeAsync().ConfigureAwait(false);
    }

    private void RunLoop()
    {
        for (var round = 0; round < MaxRoundsPerCall; round++)
        {
            if (!TryTake())
                return;
            var sending = sender.SendAsync();
            if (!sending.IsCompletedSuccessfully)
            {
                Volatile.Write(ref _loop, FinishAsync(sending));
                return;
            }
        }

        settings.Scheduler.Schedule(this);
    }

    private async Task FinishAsync(ValueTask sending)
    {
        await sending.ConfigureAwait(false);
        while (TryTake())
            await sender.SendAsync().ConfigureAwait(false);
    }

    private bool TryTake()
    {
        while (sender.Send.Count > 0 || TakeWaiting())
        {
            if (!sender.IsAborted)
                return true;
            sender.Seal();
            sender.Drop();
        }

        return false;
    }

    /// <summary>Moves what waits into the send, up to its limits, or goes idle.</summary>
    private bool TakeWaiting()
    {
        lock (_gate)
        {
            if (_queue.IsEmpty || (_holds > 0 && !sender.IsAborted))
            {
                _isSending = false;
                if (_queue.IsEmpty)
                {
                    _idle?.TrySetResult();
                    _idle = null;
                }

                return false;
            }

            var send = sender.Send;
            var bytes = 0L;
            do
            {
                var batch = _queue.Dequeue();
                bytes += batch.Content.Cost;
                send.Add(batch);
            }
            while (_queue.First is { } next && send.Count < settings.Options.MaxSendBatches
                && bytes + next.Content.Cost <= settings.Options.MaxSendBytes);
            return true;
        }
    }
}
