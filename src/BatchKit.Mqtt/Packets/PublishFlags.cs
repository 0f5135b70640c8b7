namespace BatchKit.Mqtt.Packets;

/// <summary>A PUBLISH's bits beside its type (MQTT 5, section 3.3.1).</summary>
internal static class PublishFlags
{
    public const byte Retain = 0b0001;
    public const byte QualityOfServiceMask = 0b0110;
    public const int QualityOfServiceShift = 1;
    public const byte Duplicate = 0b1000;
}
