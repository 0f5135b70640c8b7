using BatchKit.Mqtt.Packets;
using BatchKit.Mqtt.Tests.Packets.Plain;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests.Packets;

/// <summary>Generators of messages to publish, and what a packet of them says.</summary>
internal static class SomeMessages
{
    public static Gen<byte[]> Bytes { get; } = Gen.Frequency(
        (6, Gen.Choose(0, 255).Select(static value => (byte)value).ArrayOf()),
        (3, Gen.Choose(90, 140).Select(static length => Enumerable.Repeat((byte)0xC3, length).ToArray())),
        (1, Gen.Choose(16_300, 16_400).Select(static length => new byte[length])));

    public static Gen<KeyValuePair<string, string>> Pairs { get; } =
        from name in SomeTexts.Written
        from value in SomeTexts.Written
        select new KeyValuePair<string, string>(name, value);

    public static Gen<bool> Booleans { get; } = Gen.Elements(false, true);

    public static Gen<MqttMessage> Any { get; } =
        from topic in SomeTexts.Topics
        from payload in Bytes
        from qualityOfService in Gen.Elements(MqttQualityOfService.AtMostOnce, MqttQualityOfService.AtLeastOnce)
        from retain in Booleans
        from expiry in Gen.OneOf(Gen.Constant(0), Gen.Choose(1, int.MaxValue))
        from userProperties in Gen.Frequency((1, Gen.Constant(Array.Empty<KeyValuePair<string, string>>())), (2, Pairs.ArrayOf()))
        from contentType in SomeTexts.Optional(SomeTexts.Written)
        from responseTopic in SomeTexts.Optional(SomeTexts.Topics)
        from correlationData in Gen.OneOf(Gen.Constant(Array.Empty<byte>()), Bytes)
        select new MqttMessage(topic, payload)
        {
            QualityOfService = qualityOfService,
            Retain = retain,
            Expiry = expiry > 0 ? TimeSpan.FromSeconds(expiry) : null,
            UserProperties = userProperties,
            ContentType = contentType,
            ResponseTopic = responseTopic,
            CorrelationData = correlationData,
        };

    /// <summary>The properties with which MQTT 5 writes a message.</summary>
    public static IEnumerable<PlainProperty> Properties(MqttMessage message) =>
    [
        .. message.Expiry is { } expiry ? new[] { PlainProperty.Of(0x02, (long)expiry.TotalSeconds) } : [],
        .. message.ContentType is { } contentType ? new[] { new PlainProperty(0x03, contentType) } : [],
        .. message.ResponseTopic is { } responseTopic ? new[] { new PlainProperty(0x08, responseTopic) } : [],
        .. message.CorrelationData.IsEmpty ? [] : new[] { PlainProperty.Of(0x09, message.CorrelationData.Span) },
        .. message.UserProperties.ToArray().Select(static pair => PlainProperty.Pair(pair.Key, pair.Value)),
    ];

    public static PublishFields Fields(in MqttMessage message) => new()
    {
        Topic = message.Topic,
        Payload = message.Payload.Span,
        QualityOfService = message.QualityOfService ?? MqttQualityOfService.AtMostOnce,
        Retain = message.Retain ?? false,
        Expiry = (uint)(message.Expiry ?? TimeSpan.Zero).TotalSeconds,
        UserProperties = message.UserProperties.Span,
        ContentType = message.ContentType,
        ResponseTopic = message.ResponseTopic,
        CorrelationData = message.CorrelationData.Span,
    };
}
