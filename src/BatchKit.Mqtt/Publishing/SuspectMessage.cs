using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Publishing;

/// <summary>
/// Counts the connections that ended without a reason that explains it and without any acknowledgement. During isolation a ping first shows that the connection works, so that
/// no message is blamed when the broker closes every connection.
/// </summary>
internal sealed class SuspectMessage
{
    /// <summary>After this many consecutive ends a message that was alone in flight is refused.</summary>
    public const int MaxEndsAlone = 3;

    // With the default pauses both limits are reached in at most 7 s, which is within a buffer's SendTimeout.
    private const int MaxEndsAmongOthers = 2;

    private int _ends;
    private (PublishGroup? Group, int Index) _alone;
    private bool _isPinging;

    private static ReadOnlySpan<byte> PingRequest => [0xC0, 0];

    /// <summary>True once a connection ended that way: from then on each connection is proven during isolation.</summary>
    public bool NeedsProof { get; private set; }

    /// <summary>True when the broker has answered a ping on this connection.</summary>
    public bool IsConnectionProven { get; set; }

    public void Connect() => (IsConnectionProven, _isPinging) = (false, false);

    public void ProveConnection(PacketBuffer buffer)
    {
        if (_isPinging || !buffer.TryReserve(PingRequest.Length, out var memory))
            return;
        PingRequest.CopyTo(memory);
        buffer.Advance(PingRequest.Length);
        _isPinging = true;
    }

    /// <summary>A message was acknowledged or refused.</summary>
    public void Forget() => (_ends, _alone) = (0, default);

    /// <returns>True when the messages in flight must be isolated.</returns>
    public bool EndAmongOthers()
    {
        if (++_ends < MaxEndsAmongOthers)
            return false;
        (_ends, NeedsProof) = (0, true);
        return true;
    }

    /// <returns>True when the only message in flight must be refused.</returns>
    public bool EndAlone(PublishGroup group, int index)
    {
        NeedsProof = true;
        if (!IsConnectionProven)
            return false;
        if (_alone != (group, index))
            (_ends, _alone) = (0, (group, index));
        return ++_ends >= MaxEndsAlone;
    }
}
