
namespace BatchKit.Broadcast.Connections;

/// <summary>Writes a connection's output to its wire, in order: directly while the client reads, otherwise from a bounded queue.</summary>
internal sealed class SendQueue(IWire firstWire, SendQueueLimits limits, DeliveryCounters counters, TimeProvider timeProvider)
{
    // Guards all fields except the two completions and the last field. Held during IWire.TryWrite, which does not wait, so that the bytes of two writers never mix.
    private readonly Lock _lock = new();
    private readonly TaskCompletionSource _ending = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private LazyCompletion<DeliveryOutcome> _ended;
    private IWire _wire = firstWire;
    private SegmentQueue? _segments;
    private SendQueueState _state;
    private DeliveryOutcome _endOutcome = DeliveryOutcome.DroppedClosed;
    private bool _isDraining;
    private long _acknowledgedBytes;
    private long _lastProgressAt;

    /// <summary>Completes when it takes no more output.</summary>
    public Task Ending => _ending.Task;

    /// <summary>Completes when the last byte is written, or nothing more will be written: with the outcome of later output, which is a failure when the wire broke.</summary>
    public Task<DeliveryOutcome> Ended => _ended.Task;

    /// <summary>The messages that wait to be written.</summary>
    public Amount Waiting
    {
        get
        {
            lock (_lock)
                return _segments?.Waiting ?? default;
        }
    }

    /// <summary>The memory that is held for the client, counted as <see cref="BroadcastOptions.MaxQueuedBytes"/> counts it.</summary>
    public int HeldBytes
    {
        get
        {
            lock (_lock)
                return _segments?.HeldBytes ?? 0;
        }
    }

    // Created on first need: most connections never have any.
    private SegmentQueue Segments => _segments ??= new SegmentQueue();

    /// <summary>Writes or queues messages, or drops them and counts that.</summary>
    /// <returns>Why the client must be disconnected; null when it stays connected.</returns>
    public DisconnectReason? Send(in OutputRun run, ref DeliveryTally tally) => Send(run, nextWire: null, isPong: false, ref tally);

    /// <summary>Writes or queues a protocol's own bytes, which are neither counted nor dropped.</summary>
    /// <remarks>The next wire, if given, writes all bytes after them.</remarks>
    public DisconnectReason? SendControl(ReadOnlySpan<byte> bytes, Func<IWire, IWire>? nextWire = null) => SendControl(bytes, nextWire, isPong: false);

    /// <summary>Writes or queues a pong, in place of the one that waits: a client that pings and does not read makes at most one wait.</summary>
    public DisconnectReason? SendPong(ReadOnlySpan<byte> frame) => SendControl(frame, nextWire: null, isPong: true);

    /// <summary>Forgets where latest values of some groups wait, because the client joins or leaves them: a newer one must not move before that.</summary>
    public void ForgetLatest(IReadOnlyList<OutputHandle> groups)
    {
        lock (_lock)
            _segments?.ForgetLatest(groups);
    }

    /// <summary>Stops accepting output, writes what waits and then the last bytes, and ends the sending side.</summary>
    public void Complete(ReadOnlySpan<byte> lastBytes)
    {
        lock (_lock)
        {
            if (_state != SendQueueState.Open)
                return;
            _state = SendQueueState.Completing;
            _ending.TrySetResult();
            if (!lastBytes.IsEmpty)
                AddLocked(new OutputRun(lastBytes, messages: 0), taken: 0, nextWire: null);
            if (_isDraining)
                return;
            StartDrainingLocked();
        }

        _ = DrainAsync();
    }

    /// <summary>Ends the connection at once, drops what waits, and counts it under the outcome. Never throws.</summary>
    public void Abort(DeliveryOutcome outcome)
    {
        IWire wire;
        lock (_lock)
        {
            if (_state != SendQueueState.Ended)
                EndLocked(outcome);
            wire = _wire;
        }

        IWire.AbortAnyway(wire);
    }

    /// <summary>How long output has waited of which the client has taken nothing; zero when nothing waits.</summary>
    public TimeSpan StalledFor
    {
        get
        {
            lock (_lock)
            {
                if (!_isDraining || _state == SendQueueState.Ended)
                    return TimeSpan.Zero;

                // A write may wait long while its client reads. What the client has acknowledged since the last look counts as taken now.
                if (_wire.AcknowledgedBytes is { } acknowledged && acknowledged > _acknowledgedBytes)
                {
                    _acknowledgedBytes = acknowledged;
                    NoteProgress();
                }

                return timeProvider.GetElapsedTime(Volatile.Read(ref _lastProgressAt));
            }
        }
    }

    /// <summary>Completes when half of the capacity is free, or nothing more will be written.</summary>
    public Task WhenHalfFree()
    {
        lock (_lock)
            return _segments is null || _state == SendQueueState.Ended ? Task.CompletedTask : _segments.WhenHalfFree(limits);
    }

    /// <summary>Loads what a send needs into the processor's cache. It takes no lock, because the result is not used.</summary>
    public bool Prefetch() => _lock.IsHeldByCurrentThread | _wire.HasUnsent;

    private DisconnectReason? SendControl(ReadOnlySpan<byte> bytes, Func<IWire, IWire>? nextWire, bool isPong)
    {
        var dropped = default(DeliveryTally);
        var reason = Send(new OutputRun(bytes, messages: 0), nextWire, isPong, ref dropped);
        counters.Add(dropped);
        return reason;
    }

    private DisconnectReason? Send(in OutputRun run, Func<IWire, IWire>? nextWire, bool isPong, ref DeliveryTally tally)
    {
        DisconnectReason? refusal = null;
        lock (_lock)
        {
            var wasDraining = _isDraining;
            tally.Attempt(run.Amount);
            if (_state != SendQueueState.Open)
                tally.Settle(_endOutcome, run.Amount);
            else if (!wasDraining)
                refusal = WriteLocked(run, nextWire, ref tally);
            else if (!run.Latest.IsEmpty)
                refusal = QueueLatestLocked(run, ref tally);
            else
                refusal = QueueLocked(run, nextWire, isPong, ref tally);
            if (wasDraining || !_isDraining)
                return refusal;
        }

        _ = DrainAsync();
        return null;
    }

    private DisconnectReason? WriteLocked(in OutputRun run, Func<IWire, IWire>? nextWire, ref DeliveryTally tally)
    {
        int taken;
        bool waits;
        try
        {
            taken = _wire.TryWrite(run.Bytes);
            if (taken == run.Bytes.Length && nextWire is not null)
                _wire = nextWire(_wire);
            waits = taken < run.Bytes.Length || _wire.HasUnsent;
        }
        catch (Exception)
        {
            // Whatever it was, it must not fail the send: the send would be repeated for every other connection.
            tally.Settle(DeliveryOutcome.Failed, run.Amount);
            return DisconnectReason.ConnectionLost;
        }

        if (taken == run.Bytes.Length)
            tally.Settle(DeliveryOutcome.Sent, run.Amount);
        else
            AddLocked(run, taken, nextWire);
        if (!waits)
            return null;

        StartDrainingLocked();
        return null;
    }

    private DisconnectReason? QueueLocked(in OutputRun run, Func<IWire, IWire>? nextWire, bool isPong, ref DeliveryTally tally)
    {
        if (isPong)
            Segments.RemovePong();
        if (!Segments.TryAdmit(run, limits, ref tally, out var refusal))
            return refusal;
        AddLocked(run, taken: 0, nextWire);
        if (isPong)
            Segments.NotePong();
        return null;
    }

    private void AddLocked(in OutputRun run, int taken, Func<IWire, IWire>? nextWire)
    {
        if (run.Latest.IsEmpty)
            Segments.Add(run.ToSegment(taken, nextWire, limits.CapacityFor(run) - Segments.HeldBytes), isStarted: taken > 0);
        else
            Segments.AddLatest(run, taken, limits);
    }

    private DisconnectReason? QueueLatestLocked(in OutputRun run, ref DeliveryTally tally)
    {
        DisconnectReason? refusal = null;
        var owner = Segments.Supersede(run, limits, ref tally, out var rest);
        if (rest.Bytes.IsEmpty)
            tally.Settle(DeliveryOutcome.Sent, rest.Amount);
        else if (Segments.TryAdmit(rest, limits, ref tally, out refusal))
            AddLocked(rest, taken: 0, nextWire: null);
        owner?.Release();
        return refusal;
    }

    private void StartDrainingLocked() => (_isDraining, _lastProgressAt) = (true, timeProvider.GetTimestamp());

    /// <summary>Writes until nothing waits. No one awaits it: it ends by itself or with its wire, and completes <see cref="Ended"/>.</summary>
    private async Task DrainAsync()
    {
        try
        {
            IWire wire;
            bool finishes;
            while (TryTake(out wire, out var bytes, out finishes))
            {
                await (bytes.Length <= SegmentQueue.MaxWriteBytes ? wire.WriteAsync(bytes) : WriteLargeAsync(wire, bytes)).ConfigureAwait(false);
                SettleWritten();
            }

            if (finishes)
            {
                await wire.FinishAsync().ConfigureAwait(false);
                EndDrained(DeliveryOutcome.DroppedClosed);
            }
        }
        catch (Exception)
        {
            // Whatever the wire threw, its connection is over, and what waited counts as failed.
            IWire.AbortAnyway(EndDrained(DeliveryOutcome.Failed));
        }
    }

    private bool TryTake(out IWire wire, out ReadOnlyMemory<byte> bytes, out bool finishes)
    {
        lock (_lock)
        {
            (wire, bytes, finishes) = (_wire, default, _state == SendQueueState.Completing);
            var hasSegment = _segments is { IsEmpty: false };
            if (_state != SendQueueState.Ended && (hasSegment || _wire.HasUnsent))
            {
                bytes = hasSegment ? _segments!.Take(limits) : default;
                return true;
            }

            _isDraining = finishes;
            if (_state == SendQueueState.Ended)
                _ended.TrySet(_endOutcome);
            return false;
        }
    }

    // In parts, so that the sweep sees the progress of a slow client.
    private async ValueTask WriteLargeAsync(IWire wire, ReadOnlyMemory<byte> bytes)
    {
        for (; bytes.Length > SegmentQueue.MaxWriteBytes; bytes = bytes[SegmentQueue.MaxWriteBytes..])
        {
            await wire.WriteAsync(bytes[..SegmentQueue.MaxWriteBytes]).ConfigureAwait(false);
            NoteProgress();
        }

        await wire.WriteAsync(bytes).ConfigureAwait(false);
    }

    private IWire EndDrained(DeliveryOutcome outcome)
    {
        lock (_lock)
        {
            _isDraining = false;
            EndLocked(outcome);
            return _wire;
        }
    }

    private void NoteProgress() => Volatile.Write(ref _lastProgressAt, timeProvider.GetTimestamp());

    private void SettleWritten()
    {
        NoteProgress();
        lock (_lock)
        {
            if (_segments is not { IsUnderWay: true })
                return;
            var tally = default(DeliveryTally);
            tally.Settle(DeliveryOutcome.Sent, _segments.Release(out var nextWire));

            // Counted before the next wire is created, which may fail.
            counters.Add(tally);
            _segments.TellHalfFree(limits);
            _wire = nextWire is null ? _wire : nextWire(_wire);
        }
    }

    private void EndLocked(DeliveryOutcome outcome)
    {
        if (_state != SendQueueState.Ended)
            _endOutcome = outcome;
        _state = SendQueueState.Ended;
        _ending.TrySetResult();
        var tally = default(DeliveryTally);
        if (_segments is not null)
        {
            tally.Settle(_endOutcome, _segments.Clear());
            if (!_isDraining && _segments.IsUnderWay)
                tally.Settle(_endOutcome, _segments.Release(out _));
            _segments.TellEnd();
        }

        counters.Add(tally);
        if (!_isDraining)
            _ended.TrySet(_endOutcome);
    }
}

/// <summary>The state of a send queue.</summary>
internal enum SendQueueState
{
    /// <summary>It takes output.</summary>
    Open = 0,

    /// <summary>It takes no more output, and writes what waits.</summary>
    Completing = 1,

    /// <summary>It writes nothing more.</summary>
    Ended = 2,
}
