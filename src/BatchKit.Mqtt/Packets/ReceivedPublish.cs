namespace BatchKit.Mqtt.Packets;

/// <summary>A PUBLISH that was received; its memory is the packet's.</summary>
internal ref struct ReceivedPublish
{
    /// <summary>In UTF-8, checked; empty when <see cref="TopicAlias"/> stands for it.</summary>
    public ReadOnlySpan<byte> Topic;
    public ReadOnlySpan<byte> Payload;
    public MqttQualityOfService QualityOfService;
    public bool Retain;
    public bool IsDuplicate;

    /// <summary>Zero with QoS 0.</summary>
    public ushort PacketId;

    /// <summary>Zero for none.</summary>
    public ushort TopicAlias;

    /// <summary>The user properties as they are on the wire, checked, one behind the other with their identifiers; other properties may lie between them.</summary>
    public ReadOnlySpan<byte> Properties;
    public bool HasUserProperties;
    public ReadOnlySpan<byte> ContentType;
    public ReadOnlySpan<byte> ResponseTopic;
    public ReadOnlySpan<byte> CorrelationData;
}
