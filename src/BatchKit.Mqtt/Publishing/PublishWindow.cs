namespace BatchKit.Mqtt.Publishing;

/// <summary>The QoS 1 messages that are not acknowledged, in the order they were first sent, and their packet ids. Guarded by the queue's lock.</summary>
/// <remarks>
/// A ring: a message's place in the order gives its packet id, and a packet id its place, so ids can't meet as long as fewer places are taken than there are ids. A broker
/// acknowledges in order (MQTT 5, section 4.6); one that does not only keeps places taken for longer.
/// </remarks>
internal sealed class PublishWindow
{
    private const int PacketIds = ushort.MaxValue;
    private const int MaxPlaces = PacketIds - 1;

    private (PublishGroup? Group, int Index)[] _ring = new (PublishGroup?, int)[64];

    // Places are counted through; those from _first to before _end are taken or have been.
    private long _first;
    private long _end;

    // What earlier connections left: from _resend to before _resendEnd it is still to be sent over this one.
    private long _resend;
    private long _resendEnd;

    // What is before it is sent one by one.
    private long _isolatedEnd;

    /// <summary>How many are unacknowledged on this connection.</summary>
    public int Unacknowledged { get; private set; }

    public int Quota { get; private set; }

    public bool HasQuota => Unacknowledged < (IsIsolating ? 1 : Quota);

    /// <summary>True while what was under way at <see cref="Isolate"/> is sent one by one.</summary>
    public bool IsIsolating => _first < _isolatedEnd;

    /// <summary>True when one more may be added.</summary>
    public bool HasRoom => HasQuota && _end - _first < MaxPlaces;

    public bool HasResends => _resend < _resendEnd;

    /// <summary>The packet id that <see cref="Add"/> will give.</summary>
    public ushort NextPacketId => PacketIdOf(_end);

    /// <summary>The first that is to be sent again.</summary>
    public (PublishGroup Group, int Index, ushort PacketId) NextResend
    {
        get
        {
            var (group, index) = Place(_resend);
            return (group!, index, PacketIdOf(_resend));
        }
    }

    public void Add(PublishGroup group, int index)
    {
        if (_end - _first == _ring.Length)
            Grow();
        Place(_end++) = (group, index);
        Unacknowledged++;
    }

    public void AdvanceResend()
    {
        _resend++;
        Unacknowledged++;
        SkipSettled();
    }

    /// <summary>Takes what the packet id stands for out of the window.</summary>
    /// <returns>False when it stands for nothing that waits.</returns>
    public bool TryRemove(ushort packetId, out PublishGroup group, out int index)
    {
        var place = _first + ((packetId - PacketIdOf(_first) + PacketIds) % PacketIds);
        (group, index) = (null!, 0);
        if (packetId == 0 || place >= _end || Place(place).Group is not { } found)
            return false;
        (group, index) = (found, Place(place).Index);
        Remove(place);
        return true;
    }

    /// <summary>Takes the first that is to be sent again out of the window.</summary>
    public void RemoveResend() => Remove(_resend);

    /// <summary>A new connection: everything that has an owner is to be sent again, in order; what has none goes back to its group.</summary>
    public void Restart(int quota)
    {
        Quota = quota;
        Unacknowledged = 0;
        for (var place = _first; place < _end; place++)
        {
            ref var entry = ref Place(place);
            if (entry.Group is not { Owner: null } group)
                continue;
            group.SendAgain(entry.Index);
            entry.Group = null;
        }

        (_resend, _resendEnd) = (_first, _end);
        SkipSettled();
    }

    /// <summary>From now on everything that is in the window is sent one by one, until it is out of it: to find the one that the broker takes amiss.</summary>
    public void Isolate() => _isolatedEnd = _end;

    /// <summary>Takes out the only one that is under way.</summary>
    /// <returns>False when there is none, or more.</returns>
    public bool TryRemoveOnly(out PublishGroup group, out int index)
    {
        (group, index) = (null!, 0);
        for (var place = _first; place < _end && Unacknowledged == 1; place++)
        {
            if (IsUnderWay(place) && Place(place).Group is { } found)
            {
                (group, index) = (found, Place(place).Index);
                Remove(place);
                return true;
            }
        }

        return false;
    }

    private void Remove(long place)
    {
        if (IsUnderWay(place))
            Unacknowledged--;
        Place(place).Group = null;
        SkipSettled();
    }

    // Sent over this connection: not one of those that earlier ones left and that are still to be sent again.
    private bool IsUnderWay(long place) => place < _resend || place >= _resendEnd;

    private void SkipSettled()
    {
        while (_first < _end && Place(_first).Group is null)
            _first++;
        _resend = Math.Max(_resend, Math.Min(_first, _resendEnd));
        while (_resend < _resendEnd && Place(_resend).Group is null)
            _resend++;
    }

    private void Grow()
    {
        var ring = new (PublishGroup?, int)[_ring.Length * 2];
        for (var place = _first; place < _end; place++)
            ring[place & (ring.Length - 1)] = Place(place);
        _ring = ring;
    }

    private ref (PublishGroup? Group, int Index) Place(long place) => ref _ring[place & (_ring.Length - 1)];

    private static ushort PacketIdOf(long place) => (ushort)((place % PacketIds) + 1);
}
