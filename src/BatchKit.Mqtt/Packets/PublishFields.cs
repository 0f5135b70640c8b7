namespace BatchKit.Mqtt.Packets;

/// <summary>What a PUBLISH to be written says; its memory is the caller's.</summary>
internal ref struct PublishFields
{
    public string Topic;
    public ReadOnlySpan<byte> Payload;
    public MqttQualityOfService QualityOfService;
    public bool Retain;

    /// <summary>In seconds; zero is never.</summary>
    public uint Expiry;

    public ReadOnlySpan<KeyValuePair<string, string>> UserProperties;
    public string? ContentType;
    public string? ResponseTopic;
    public ReadOnlySpan<byte> CorrelationData;
}
