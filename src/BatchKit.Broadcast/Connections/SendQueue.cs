namespace BatchKit.Broadcast.Connections;

/// <summary>Puts a connection's output on its wire, in order: at once while the client reads, else from a bounded queue.</summary>
internal sealed class SendQueue(IWire firstWire, SendQueueLimits limits, DeliveryCounters counters, TimeProvider timeProvider)
{
    // Guards all fields but the last. Held while the wire is tried, which does not wait, so that the bytes of two writers never mix.
    private readonly Lock _lock = new();
    private readonly TaskCompletionSource _ended = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private IWire _wire = firstWire;
    private PieceQueue? _pieces;
    private SendQueueState _state;
    private DeliveryOutcome _endOutcome = DeliveryOutcome.DroppedClosed;
    private bool _isDraining;
    private long _lastProgressAt;

    /// <summary>Completes when the last byte is written, or none will be any more.</summary>
    public Task Ended => _ended.Task;

    /// <summary>What waits to be written.</summary>
    public Amount Waiting
    {
        get
        {
            lock (_lock)
                return _pieces?.Waiting ?? default;
        }
    }

    /// <summary>The bytes that are held for the client.</summary>
    public int HeldBytes
    {
        get
        {
            lock (_lock)
                return _pieces?.HeldBytes ?? 0;
        }
    }

    // Made on first need: most connections never have any.
    private PieceQueue Pieces => _pieces ??= new PieceQueue();

    /// <summary>Writes or queues messages, or drops them, counted.</summary>
    /// <returns>Why the client is to be disconnected; null when it is not.</returns>
    public DisconnectReason? Send(in OutputRun run, ref DeliveryTally tally) => Send(run, nextWire: null, ref tally);

    /// <summary>Writes or queues a protocol's own bytes, which are neither counted nor dropped.</summary>
    /// <remarks>The next wire, if one is given, takes over behind them.</remarks>
    public DisconnectReason? SendControl(ReadOnlySpan<byte> bytes, Func<IWire, IWire>? nextWire = null)
    {
        var dropped = default(DeliveryTally);
        var reason = Send(new OutputRun(bytes, messages: 0), nextWire, ref dropped);
        counters.Add(dropped);
        return reason;
    }

    /// <summary>Takes no more; what waits is written, then the last bytes, then the sending side ends.</summary>
    public void Complete(ReadOnlySpan<byte> lastBytes)
    {
        lock (_lock)
        {
            if (_state != SendQueueState.Open)
                return;
            _state = SendQueueState.Completing;
            if (!lastBytes.IsEmpty)
                AddLocked(new OutputRun(lastBytes, messages: 0), taken: 0, nextWire: null);
            if (_isDraining)
                return;
            StartDrainingLocked();
        }

        _ = DrainAsync();
    }

    /// <summary>Ends the connection at once: what waits is dropped, counted by the outcome.</summary>
    public void Abort(DeliveryOutcome outcome)
    {
        IWire wire;
        lock (_lock)
        {
            if (_state != SendQueueState.Ended)
                EndLocked(outcome);
            wire = _wire;
        }

        AbortWire(wire);
    }

    /// <summary>True when output has waited for longer than the limit without any being taken.</summary>
    public bool IsStalled(TimeSpan limit)
    {
        lock (_lock)
            return _isDraining && _state != SendQueueState.Ended && timeProvider.GetElapsedTime(Volatile.Read(ref _lastProgressAt)) >= limit;
    }

    /// <summary>Reads what a send needs, so that it is in the processor's cache then; without the lock, because nothing is done with it.</summary>
    public bool Fetch() => _lock.IsHeldByCurrentThread | _wire.HasUnsent;

    private DisconnectReason? Send(in OutputRun run, Func<IWire, IWire>? nextWire, ref DeliveryTally tally)
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
            else if (Pieces.TryMakeRoom(run, limits, ref tally, out refusal))
                AddLocked(run, taken: 0, nextWire);
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

    private void AddLocked(in OutputRun run, int taken, Func<IWire, IWire>? nextWire)
    {
        run.Owner?.AddReference();
        var owner = run.Owner ?? SharedBuffer.Copy(run.Bytes);
        var offset = run.Owner is null ? 0 : run.Offset;
        var rest = owner.Memory[(offset + taken)..(offset + run.Bytes.Length)];
        Pieces.Add(new QueuedPiece(owner, rest, run.Amount, nextWire), isStarted: taken > 0);
    }

    private void StartDrainingLocked() => (_isDraining, _lastProgressAt) = (true, timeProvider.GetTimestamp());

    /// <summary>Writes what waits until nothing does. Needs no awaiting: it ends by itself or with its wire, and then says so by <see cref="Ended"/>.</summary>
    private async Task DrainAsync()
    {
        try
        {
            IWire wire;
            bool finishes;
            while (TryTake(out wire, out var bytes, out finishes))
            {
                await (bytes.Length <= PieceQueue.MaxWriteBytes ? wire.WriteAsync(bytes) : LargeWrite.RunAsync(wire, bytes, NoteProgress)).ConfigureAwait(false);
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
            // Whatever a wire threw, its connection is over, and what waited counts as failed.
            AbortWire(EndDrained(DeliveryOutcome.Failed));
        }
    }

    private bool TryTake(out IWire wire, out ReadOnlyMemory<byte> bytes, out bool finishes)
    {
        lock (_lock)
        {
            (wire, bytes, finishes) = (_wire, default, _state == SendQueueState.Completing);
            var hasPiece = _pieces is { IsEmpty: false };
            if (_state != SendQueueState.Ended && (hasPiece || _wire.HasUnsent))
            {
                bytes = hasPiece ? _pieces!.Take(limits) : default;
                return true;
            }

            _isDraining = finishes;
            if (_state == SendQueueState.Ended)
                _ended.TrySetResult();
            return false;
        }
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
            if (_pieces is not { IsUnderWay: true })
                return;
            var tally = default(DeliveryTally);
            tally.Settle(DeliveryOutcome.Sent, _pieces.Release(out var nextWire));

            // Counted before the next wire is made, which may fail.
            counters.Add(tally);
            _wire = nextWire is null ? _wire : nextWire(_wire);
        }
    }

    private void EndLocked(DeliveryOutcome outcome)
    {
        if (_state != SendQueueState.Ended)
            _endOutcome = outcome;
        _state = SendQueueState.Ended;
        var tally = default(DeliveryTally);
        if (_pieces is not null)
        {
            tally.Settle(_endOutcome, _pieces.Clear());
            if (!_isDraining && _pieces.IsUnderWay)
                tally.Settle(_endOutcome, _pieces.Release(out _));
        }

        counters.Add(tally);
        if (!_isDraining)
            _ended.TrySetResult();
    }

    private static void AbortWire(IWire wire)
    {
        try
        {
            wire.Abort();
        }
        catch (Exception)
        {
            // Its connection has ended. What its socket, its server or a logger throws must not end the send of every other connection.
        }
    }
}
