using System.Buffers;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet;

/// <summary>How messages are published, as the options say.</summary>
internal readonly record struct PublishSettings(MqttQualityOfServiceLevel QualityOfService, bool Retain, TimeSpan? Expiry)
{
    /// <summary>Makes the application's message of one of ours; the payload is the caller's copy, and the list is filled here and stays the caller's.</summary>
    public MqttApplicationMessage Make(string topic, ReadOnlyMemory<byte> payload, MessageHeader? header, List<MqttUserProperty>? properties)
    {
        var message = new MqttApplicationMessage
        {
            Topic = topic,
            Payload = new ReadOnlySequence<byte>(payload),
            QualityOfServiceLevel = QualityOfService,
            Retain = Retain,
            // Zero is none (MQTT 5, section 3.3.2.3.3); the options allow whole seconds from one.
            MessageExpiryInterval = Expiry is { } expiry ? (uint)expiry.TotalSeconds : 0,
        };
        if (header?.ContentType is { } contentType)
            message.ContentType = contentType;
        if (properties is null)
            return message;
        foreach (var property in header!.Properties)
            properties.Add(UserProperty.Make(property.Key, property.Value));
        message.UserProperties = properties;
        return message;
    }

    /// <summary>True when a message has properties that need a list.</summary>
    public static bool HasProperties(MessageHeader? header) => header is { Properties.IsDefaultOrEmpty: false };

    /// <summary>True when a message is for a connection's hop and has no meaning to subscribers.</summary>
    public static bool IsControl(MessageHeader? header) => header is { Kind: MessageKind.Control };
}
