namespace BatchKit.Mqtt;

/// <summary>The version of the protocol; the value is the level that CONNECT carries (MQTT 5, section 3.1.2.2).</summary>
public enum MqttVersion
{
    /// <summary>MQTT 3.1.1: no properties, no reason codes for a publish, no Receive Maximum.</summary>
    V311 = 4,

    /// <summary>MQTT 5.</summary>
    V5 = 5,
}
