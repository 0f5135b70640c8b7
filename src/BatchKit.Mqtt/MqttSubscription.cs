using System.ComponentModel.DataAnnotations;

namespace BatchKit.Mqtt;

/// <summary>What a receiver subscribes to.</summary>
public sealed class MqttSubscription
{
    /// <summary>The topic filter; <c>$share/group/filter</c> distributes its messages among the receivers of the group (MQTT 5, section 4.8.2).</summary>
    [Required]
    public string Filter { get; set; } = "";

    /// <summary>The maximum QoS to receive with, 0 or 1; 1 by default.</summary>
    [EnumDataType(typeof(MqttQualityOfService), ErrorMessage = "{0} must be AtMostOnce or AtLeastOnce.")]
    public MqttQualityOfService QualityOfService { get; set; } = MqttQualityOfService.AtLeastOnce;

    /// <summary>
    /// When the broker sends the retained messages (MQTT 5, section 3.8.3.1); at each start of the receiver by default. A connection that resumes the session after that is not sent them again. MQTT 3.1.1 sends
    /// them on each connection and allows the default only.
    /// </summary>
    [EnumDataType(typeof(MqttRetainHandling))]
    public MqttRetainHandling RetainHandling { get; set; }

    /// <summary>
    /// True leaves out messages that the same connection has published (MQTT 5, section 3.8.3.1), which only one with <see cref="MqttOptions.SharesConnection"/> does; false by default. A shared subscription, and
    /// MQTT 3.1.1, don't allow it.
    /// </summary>
    public bool NoLocal { get; set; }

    /// <summary>
    /// True keeps the retain flag of a message as its publisher set it (MQTT 5, section 3.8.3.1). False, the default, sets it only for messages that the broker had retained before the subscription. MQTT 3.1.1
    /// doesn't allow it.
    /// </summary>
    public bool RetainAsPublished { get; set; }

    internal bool NeedsVersion5 => NoLocal || RetainAsPublished || RetainHandling != MqttRetainHandling.SendAtStart;

    internal MqttSubscription Copy() => (MqttSubscription)MemberwiseClone();
}

/// <summary>When the broker sends a subscription's retained messages; the value is Retain Handling in SUBSCRIBE (MQTT 5, section 3.8.3.1).</summary>
public enum MqttRetainHandling
{
    /// <summary>
    /// At the start of the receiver, and when the broker has lost its session. Those of QoS 0 that were under way when a connection was lost come only at the next start, because the session does not keep them.
    /// </summary>
    SendAtStart = 0,

    /// <summary>Only when the session has no such subscription yet.</summary>
    SendIfNew = 1,

    /// <summary>Never.</summary>
    DoNotSend = 2,
}
