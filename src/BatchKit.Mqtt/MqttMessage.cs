namespace BatchKit.Mqtt;

/// <summary>One message for <see cref="IMqttPublisher.PublishManyAsync"/>.</summary>
/// <remarks>
/// The caller owns its memory and must not change it until the publish has ended. MQTT 3.1.1 carries only topic, payload, QoS and retain; the other properties are
/// not sent.
/// </remarks>
/// <param name="Topic">The topic to publish to: no wildcards, at most 65,535 bytes of UTF-8.</param>
/// <param name="Payload">The payload.</param>
public readonly record struct MqttMessage(string Topic, ReadOnlyMemory<byte> Payload)
{
    /// <summary>How the message is delivered. Null, the default, takes it from <see cref="MqttOptions.TopicRules"/>, then from <see cref="MqttOptions.QualityOfService"/>.</summary>
    public MqttQualityOfService? QualityOfService { get; init; }

    /// <summary>
    /// Whether the broker keeps the message for later subscribers. Null, the default, takes it from <see cref="MqttOptions.TopicRules"/>; without a matching rule it
    /// is not kept.
    /// </summary>
    public bool? Retain { get; init; }

    /// <summary>
    /// The time after which the broker may drop the message, in whole seconds. Null, the default, takes it from <see cref="MqttOptions.TopicRules"/>; without a
    /// matching rule it never expires. Zero means never, whatever the rules say.
    /// </summary>
    public TimeSpan? Expiry { get; init; }

    /// <summary>The user properties, in order; none by default (MQTT 5, section 3.3.2.3.7).</summary>
    public ReadOnlyMemory<KeyValuePair<string, string>> UserProperties { get; init; }

    /// <summary>The payload's media type; none by default.</summary>
    public string? ContentType { get; init; }

    /// <summary>The topic that an answer should go to; none by default.</summary>
    public string? ResponseTopic { get; init; }

    /// <summary>The data that an answer should carry so that it can be matched to this message; none by default.</summary>
    public ReadOnlyMemory<byte> CorrelationData { get; init; }
}

/// <summary>How a message is delivered (MQTT 5, section 4.3).</summary>
public enum MqttQualityOfService
{
    /// <summary>QoS 0: written once and not acknowledged. Messages in flight are lost with the connection.</summary>
    AtMostOnce = 0,

    /// <summary>QoS 1: sent again until the broker acknowledges it.</summary>
    AtLeastOnce = 1,

    /// <summary>QoS 2: not supported. A message that asks for it is refused.</summary>
    ExactlyOnce = 2,
}
