namespace BatchKit.Mqtt.Packets;

/// <summary>CONNACK (MQTT 5, section 3.2): the broker's answer, its limits, and what they are when it names none.</summary>
internal sealed record ConnackPacket
{
    /// <summary>3.1.1's return codes (section 3.2.2.3) are given as the reason codes of the same meaning.</summary>
    public MqttReasonCode ReasonCode { get; init; }

    public bool IsSessionPresent { get; init; }

    /// <summary>How many QoS 1 messages may be unacknowledged; 65,535 where the broker names none, as always with 3.1.1.</summary>
    public int ReceiveMaximum { get; init; } = ushort.MaxValue;

    public uint MaxPacketBytes { get; init; } = uint.MaxValue;

    public ushort TopicAliasMaximum { get; init; }

    public MqttQualityOfService MaximumQualityOfService { get; init; } = MqttQualityOfService.ExactlyOnce;

    public bool IsRetainAvailable { get; init; } = true;

    public bool IsWildcardSubscriptionAvailable { get; init; } = true;

    public bool IsSharedSubscriptionAvailable { get; init; } = true;

    /// <summary>In seconds; null where the broker imposes none.</summary>
    public ushort? ServerKeepAlive { get; init; }

    public string? AssignedClientId { get; init; }

    public string? Reason { get; init; }

    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static ConnackPacket Read(ReadOnlySpan<byte> body, MqttVersion version) => throw new NotSupportedException();
}
