using System.Buffers;
using System.Runtime.InteropServices;
using BatchKit.Transports;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet;

/// <summary>How messages are published, according to the options.</summary>
internal readonly record struct PublishSettings(MqttQualityOfServiceLevel QualityOfService, bool Retain, TimeSpan? Expiry)
{
    /// <summary>Creates MQTTnet's message from a message of a batch. The caller owns the payload and the list, which this method fills.</summary>
    public MqttApplicationMessage CreateMessage(string topic, ReadOnlyMemory<byte> payload, MessageHeader? header, List<MqttUserProperty>? properties)
    {
        var message = new MqttApplicationMessage
        {
            Topic = topic,
            Payload = new ReadOnlySequence<byte>(payload),
            QualityOfServiceLevel = QualityOfService,
            Retain = Retain || header is { IsRetained: true },
            // Zero means no expiry (MQTT 5, section 3.3.2.3.3); the options allow one second or more.
            MessageExpiryInterval = Expiry is { } expiry ? (uint)expiry.TotalSeconds : 0,
        };
        if (header?.ContentType is { } contentType)
            message.ContentType = contentType;
        if (header?.ReplyTo is { } replyTo)
            message.ResponseTopic = replyTo;
        if (header is { CorrelationData.IsDefaultOrEmpty: false })
            message.CorrelationData = ImmutableCollectionsMarshal.AsArray(header.CorrelationData);
        if (properties is null)
            return message;
        foreach (var property in header!.Properties)
            properties.Add(UserProperty.Create(property.Key, property.Value));
        message.UserProperties = properties;
        return message;
    }

    /// <summary>True when a message has properties that need a list.</summary>
    public static bool HasProperties(MessageHeader? header) => header is { Properties.IsDefaultOrEmpty: false };

    /// <summary>True for a control message, which has no meaning for subscribers.</summary>
    public static bool IsControl(MessageHeader? header) => header is { Kind: MessageKind.Control };
}
