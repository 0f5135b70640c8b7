namespace BatchKit.Mqtt.Connections;

/// <summary>How a connection ended.</summary>
/// <param name="Reason">Why, for a person; a sentence.</param>
/// <param name="Goodbye">What the broker is told; null when there is nobody to tell.</param>
/// <param name="Notice">What the broker said in its DISCONNECT; null when it said nothing.</param>
internal sealed record ConnectionEnd(string Reason, MqttReasonCode? Goodbye = null, MqttReasonCode? Notice = null);
