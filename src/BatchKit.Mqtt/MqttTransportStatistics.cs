namespace BatchKit.Mqtt;

/// <summary>What a transport has done so far, and what it has under way.</summary>
public readonly record struct MqttTransportStatistics
{
    /// <summary>Messages that were given to it, by buffers and by calls.</summary>
    public long AcceptedMessages { get; init; }

    /// <summary>Of these, acknowledged by the broker (QoS 1) or written (QoS 0).</summary>
    public long AcknowledgedMessages { get; init; }

    /// <summary>Of these, refused: by this side for a bad topic or a size, or by the broker with a reason code.</summary>
    public long RefusedMessages { get; init; }

    /// <summary>QoS 0 messages that were just being written when a connection was lost: they may have gone with it. They count as acknowledged too.</summary>
    public long LostMessages { get; init; }

    /// <summary>How often a message was sent again after a lost connection.</summary>
    public long ResentMessages { get; init; }

    /// <summary>How often it has connected.</summary>
    public long Connects { get; init; }

    /// <summary>The most messages that may wait for their acknowledgement now: the smaller of <see cref="MqttOptions.PublishWindow"/> and the broker's Receive Maximum. Zero before the first connect.</summary>
    public int Window { get; init; }

    /// <summary>How many wait for it on this connection.</summary>
    public int InFlightMessages { get; init; }
}
