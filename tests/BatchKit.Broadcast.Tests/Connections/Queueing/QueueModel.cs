using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Connections.Queueing;

/// <summary>What a send queue must do, written down plainly: lists, no sharing, no threads.</summary>
internal sealed class QueueModel(SendQueueLimits limits)
{
    private readonly List<ModelSegment> _waiting = [];
    private readonly List<ModelSegment> _underWay = [];
    private readonly Amount[] _settled = new Amount[DeliveryTally.Outcomes];
    private DeliveryOutcome _endOutcome = DeliveryOutcome.DroppedClosed;
    private bool _isLoud;
    private bool _isWriting;

    public List<byte> Written { get; } = [];

    public Amount Attempted { get; private set; }

    public bool IsOpen { get; private set; } = true;

    public bool IsOver { get; private set; }

    public bool IsFinished { get; private set; }

    public bool IsBroken { get; private set; }

    public int Room { get; private set; }

    /// <summary>When something began to wait, or was written last; null while nothing waits.</summary>
    public long? ProgressAt { get; private set; }

    public long Now { get; set; }

    public Amount Waiting => All.Aggregate(default(Amount), (sum, segment) => sum + segment.Amount);

    public int HeldBytes => _waiting.Sum(segment => segment.HeldBytes) + _underWayHeldBytes;

    public Amount this[DeliveryOutcome outcome] => _settled[(int)outcome];

    private IEnumerable<ModelSegment> All => _underWay.Concat(_waiting);

    // A write under way holds its array until all of it is taken.
    private int _underWayHeldBytes;

    /// <summary>The memory that bytes of their own hold.</summary>
    public static int HeldBytesFor(int bytes) => QueuedSegment.HeldBytesFor(SharedBuffer.CapacityFor(bytes));

    public DisconnectReason? Send(byte[] bytes, int messages, bool switches, int heldBytes)
    {
        var amount = messages == 0 ? default : new Amount(messages, bytes.Length);
        Attempted += amount;
        if (!IsOpen)
        {
            Settle(_endOutcome, amount);
            return null;
        }

        if (_isWriting)
        {
            if (!TryAdmit(heldBytes, messages))
                return Refuse(amount);
            _waiting.Add(new ModelSegment(amount, bytes, IsStarted: false, switches, heldBytes));
            return null;
        }

        if (IsBroken)
        {
            Settle(DeliveryOutcome.Failed, amount);
            return DisconnectReason.ConnectionLost;
        }

        var taken = Take(bytes);
        if (taken == bytes.Length)
        {
            Settle(DeliveryOutcome.Sent, amount);
            _isLoud |= switches;
            return null;
        }

        _waiting.Add(new ModelSegment(amount, bytes[taken..], IsStarted: taken > 0, switches, heldBytes));
        ProgressAt = Now;
        Drain();
        return null;
    }

    public void Complete(byte[] lastBytes)
    {
        if (!IsOpen)
            return;
        IsOpen = false;
        if (lastBytes.Length > 0)
            _waiting.Add(new ModelSegment(default, lastBytes, IsStarted: false, Switches: false, HeldBytesFor(lastBytes.Length)));
        if (_isWriting)
            return;
        ProgressAt = Now;
        Drain();
    }

    public void Abort(DeliveryOutcome outcome)
    {
        IsBroken = true;
        End(outcome);
    }

    public void Grant(int bytes)
    {
        Room = (int)Math.Min(int.MaxValue, (long)Room + bytes);
        if (_isWriting)
            Drain();
    }

    public void CloseWire() => Room = 0;

    public void BreakWire()
    {
        IsBroken = true;
        if (_isWriting)
            End(DeliveryOutcome.Failed);
    }

    /// <summary>Writes until the wire takes no more.</summary>
    private void Drain()
    {
        _isWriting = true;
        while (true)
        {
            if (_underWay.Count == 0 && !TryBegin())
                return;
            if (IsBroken)
            {
                End(DeliveryOutcome.Failed);
                return;
            }

            while (_underWay.Find(segment => segment.Rest.Length > 0) is { } segment)
            {
                var taken = Take(segment.Rest);
                _underWay[_underWay.IndexOf(segment)] = segment with { Rest = segment.Rest[taken..] };
                if (taken < segment.Rest.Length)
                    return;
            }

            _underWay.ForEach(segment => Settle(DeliveryOutcome.Sent, segment.Amount));
            _isLoud |= _underWay[^1].Switches;
            _underWay.Clear();
            _underWayHeldBytes = 0;
            ProgressAt = Now;
        }
    }

    /// <summary>Takes what waits, up to where another wire takes over or a write would be too large.</summary>
    private bool TryBegin()
    {
        if (_waiting.Count == 0)
        {
            (_isWriting, ProgressAt) = (false, null);
            if (IsOpen)
                return false;
            IsFinished = !IsBroken;
            End(IsBroken ? DeliveryOutcome.Failed : DeliveryOutcome.DroppedClosed);
            return false;
        }

        do
        {
            _underWay.Add(_waiting[0]);
            _waiting.RemoveAt(0);
        }
        while (!_underWay[^1].Switches && _waiting.Count > 0 && IsWithinOneWrite([.. _underWay, _waiting[0]]));

        _underWayHeldBytes = _underWay.Count == 1 ? _underWay[0].HeldBytes : HeldBytesFor(_underWay.Sum(segment => segment.Rest.Length));
        return true;
    }

    private bool IsWithinOneWrite(ModelSegment[] segments) =>
        segments.Sum(segment => segment.Rest.Length) <= limits.MaxRunBytes && segments.Sum(segment => segment.Amount.Messages) <= limits.MaxRunMessages
        && HeldBytesFor(segments.Sum(segment => segment.Rest.Length)) <= segments.Sum(segment => segment.HeldBytes);

    private void End(DeliveryOutcome outcome)
    {
        if (!IsOver)
            _endOutcome = outcome;
        foreach (var segment in All)
            Settle(_endOutcome, segment.Amount);
        _waiting.Clear();
        _underWay.Clear();
        (_underWayHeldBytes, ProgressAt) = (0, null);
        (IsOpen, IsOver, _isWriting) = (false, true, false);
    }

    private bool TryAdmit(int heldBytes, int messages)
    {
        if (Fits(heldBytes, messages))
            return true;
        if (limits.Policy == SlowConsumerPolicy.Disconnect || (limits.Policy == SlowConsumerPolicy.DropNewest && messages > 0))
            return false;
        var isOldest = limits.Policy == SlowConsumerPolicy.DropOldest;
        var droppable = _waiting.Where(segment => !segment.IsStarted && segment.Amount.Messages > 0).ToList();
        if (!isOldest)
            droppable.Reverse();

        // All or nothing: output is dropped only when that helps.
        var (kept, dropped) = (_waiting.ToArray(), new List<ModelSegment>());
        foreach (var segment in droppable.TakeWhile(_ => !Fits(heldBytes, messages)))
        {
            dropped.Add(segment);
            _waiting.RemoveAt(_waiting.FindIndex(waiting => ReferenceEquals(waiting, segment)));
        }

        if (!Fits(heldBytes, messages))
        {
            _waiting.Clear();
            _waiting.AddRange(kept);
            return false;
        }

        dropped.ForEach(segment => Settle(isOldest ? DeliveryOutcome.DroppedOldest : DeliveryOutcome.DroppedNewest, segment.Amount));
        return true;
    }

    private bool Fits(int heldBytes, int messages) => HeldBytes + heldBytes <= limits.MessageCapacityBytes && Waiting.Messages + messages <= limits.MaxMessages;

    private DisconnectReason? Refuse(Amount amount)
    {
        var isDisconnected = limits.Policy == SlowConsumerPolicy.Disconnect || amount.Messages == 0;
        Settle(isDisconnected ? DeliveryOutcome.DroppedSlowConsumer : DeliveryOutcome.DroppedNewest, amount);
        return isDisconnected ? DisconnectReason.SlowConsumer : null;
    }

    private int Take(byte[] bytes)
    {
        var taken = Math.Min(bytes.Length, Room);
        Written.AddRange(_isLoud ? LoudWire.Change(bytes.AsSpan(0, taken)) : bytes[..taken]);
        Room -= Room == int.MaxValue ? 0 : taken;
        return taken;
    }

    private void Settle(DeliveryOutcome outcome, Amount amount) => _settled[(int)outcome] += amount;
}
