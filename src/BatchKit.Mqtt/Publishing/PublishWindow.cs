namespace BatchKit.Mqtt.Publishing;

/// <summary>The unacknowledged QoS 1 messages, in the order in which they were first sent, and their packet ids. Guarded by the queue's lock.</summary>
/// <remarks>
/// A ring buffer. Each place in the order has its own packet id, so ids are unique as long as fewer places are in use than there are ids. A broker acknowledges in order (MQTT 5,
/// section 4.6). If a broker does not, places only stay in use for longer.
/// </remarks>
internal sealed class PublishWindow
{
    private const int PacketIds = ushort.MaxValue;
    private const int MaxPlaces = PacketIds - 1;

    private (PublishGroup? Group, int Index)[] _ring = new (PublishGroup?, int)[64];

    // Place numbers only rise. Those from _first up to, not including, _end are in use or have been.
    private long _first;
    private long _end;

    // Messages of earlier connections: those from _resend up to, not including, _resendEnd are still to be sent on this one.
    private long _resend;
    private long _resendEnd;

    // Messages before this place are sent one by one.
    private long _isolatedEnd;

    /// <summary>The number of unacknowledged messages on this connection.</summary>
    public int Unacknowledged { get; private set; }

    public int Quota { get; private set; }

    public bool HasQuota => Unacknowledged < (IsIsolating ? 1 : Quota);

    /// <summary>True while the messages that were in the window at <see cref="Isolate"/> are sent one by one.</summary>
    public bool IsIsolating => _first < _isolatedEnd;

    /// <summary>True when a message may be added.</summary>
    public bool HasCapacity => HasQuota && _end - _first < MaxPlaces;

    /// <summary>True when a message in flight has no owner: its send was given up, and its place comes back only with its acknowledgement or on the next connection.</summary>
    public bool HasOwnerless
    {
        get
        {
            for (var place = _first; place < _end; place++)
            {
                if (IsUnderWay(place) && Place(place).Group is { Owner: null })
                    return true;
            }

            return false;
        }
    }

    public bool HasResends => _resend < _resendEnd;

    /// <summary>The packet id that the next <see cref="Add"/> assigns.</summary>
    public ushort NextPacketId => PacketIdOf(_end);

    /// <summary>A packet id that no place in use has, and that no place gets before the window has advanced.</summary>
    public ushort UnusedPacketId => PacketIdOf(_first + MaxPlaces);

    /// <summary>The first message to send again.</summary>
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

    /// <summary>Removes the message with a packet id.</summary>
    /// <returns>False when the window has no such message.</returns>
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

    /// <summary>Removes the first message to send again.</summary>
    public void RemoveResend() => Remove(_resend);

    /// <summary>Starts a new connection. Messages whose group has an owner are sent again, in order; the others return to their group as unsent.</summary>
    public void Restart(int quota)
    {
        Quota = quota;
        Unacknowledged = 0;
        for (var place = _first; place < _end; place++)
        {
            ref var entry = ref Place(place);
            if (entry.Group is not { Owner: null } group)
                continue;
            group.Resend(entry.Index);
            entry.Group = null;
        }

        (_resend, _resendEnd) = (_first, _end);
        SkipSettled();
    }

    /// <summary>From now on, sends the messages in the window one by one until they are settled, to find the message because of which the broker ends the connection.</summary>
    public void Isolate() => _isolatedEnd = _end;

    /// <summary>Finds the only message in flight.</summary>
    /// <returns>False when there is none or more than one.</returns>
    public bool TryGetOnly(out PublishGroup group, out int index, out ushort packetId)
    {
        (group, index, packetId) = (null!, 0, 0);
        for (var place = _first; place < _end && Unacknowledged == 1; place++)
        {
            if (IsUnderWay(place) && Place(place).Group is { } found)
            {
                (group, index, packetId) = (found, Place(place).Index, PacketIdOf(place));
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

    // True when the message was sent on this connection, false when it still waits to be sent again.
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
