using System.ComponentModel.DataAnnotations;

namespace BatchKit.Mqtt;

/// <summary>How messages for the topics that a filter matches are published, where they don't say so themselves.</summary>
public sealed class MqttTopicRule
{
    /// <summary>The topic filter, with <c>+</c> and <c>#</c> as in a subscription (MQTT 5, section 4.7); <c>#</c> by default, which matches every topic but those that begin with <c>$</c>.</summary>
    [Required]
    public string Filter { get; set; } = "#";

    /// <summary>QoS 0 or 1; null by default, which takes <see cref="MqttOptions.QualityOfService"/>.</summary>
    [EnumDataType(typeof(MqttQualityOfService))]
    public MqttQualityOfService? QualityOfService { get; set; }

    /// <summary>Whether the broker keeps the last message for later subscribers; false by default.</summary>
    public bool Retain { get; set; }

    /// <summary>After how long the broker may drop a message that waits for a subscriber, in whole seconds; null by default, which is never. MQTT 5 only.</summary>
    [TimeSpanRange("00:00:01", "24855.00:00:00")]
    public TimeSpan? Expiry { get; set; }
}
