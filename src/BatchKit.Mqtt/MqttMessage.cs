namespace BatchKit.Mqtt;

/// <summary>One message for <see cref="IMqttPublisher.PublishManyAsync"/>.</summary>
/// <remarks>Its memory is the caller's, and must stay unchanged until the publish has ended. MQTT 3.1.1 carries topic, payload, QoS and retain only; the rest is left out there.</remarks>
/// <param name="Topic">Where it goes: no wildcards, at most 65,535 bytes of UTF-8.</param>
/// <param name="Payload">Its bytes.</param>
public readonly record struct MqttMessage(string Topic, ReadOnlyMemory<byte> Payload)
{
    /// <summary>How it is delivered; null by default, which leaves it to <see cref="MqttOptions.TopicRules"/> and <see cref="MqttOptions.QualityOfService"/>.</summary>
    public MqttQualityOfService? QualityOfService { get; init; }

    /// <summary>Whether the broker keeps it for later subscribers; null by default, which leaves it to <see cref="MqttOptions.TopicRules"/>, else no.</summary>
    public bool? Retain { get; init; }

    /// <summary>After how long the broker may drop it, in whole seconds; null by default, which leaves it to <see cref="MqttOptions.TopicRules"/>, else never.</summary>
    public TimeSpan? Expiry { get; init; }

    /// <summary>User properties, in order; none by default (MQTT 5, section 3.3.2.3.7).</summary>
    public ReadOnlyMemory<KeyValuePair<string, string>> UserProperties { get; init; }

    /// <summary>The payload's media type; none by default.</summary>
    public string? ContentType { get; init; }

    /// <summary>Where an answer should go; none by default.</summary>
    public string? ResponseTopic { get; init; }

    /// <summary>What an answer should carry; none by default.</summary>
    public ReadOnlyMemory<byte> CorrelationData { get; init; }
}

/// <summary>How a message is delivered (MQTT 5, section 4.3).</summary>
public enum MqttQualityOfService
{
    /// <summary>QoS 0: written once and not acknowledged. A lost connection loses what was under way.</summary>
    AtMostOnce = 0,

    /// <summary>QoS 1: sent again until it is acknowledged.</summary>
    AtLeastOnce = 1,

    /// <summary>QoS 2: not supported; a message that asks for it is refused.</summary>
    ExactlyOnce = 2,
}
