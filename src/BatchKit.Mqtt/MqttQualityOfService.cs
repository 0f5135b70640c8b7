namespace BatchKit.Mqtt;

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
