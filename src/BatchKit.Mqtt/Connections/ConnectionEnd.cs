namespace BatchKit.Mqtt.Connections;

/// <summary>How a connection ended.</summary>
/// <param name="Reason">Why, for a person; a sentence.</param>
/// <param name="Goodbye">What the broker is told; null when there is nobody to tell.</param>
/// <param name="Notice">What the broker said in its DISCONNECT; null when it said nothing.</param>
/// <param name="IsUnexplained">True when the broker closed it in good order and said nothing: so Mosquitto ends one whose session was taken over.</param>
internal sealed record ConnectionEnd(string Reason, MqttReasonCode? Goodbye = null, MqttReasonCode? Notice = null, bool IsUnexplained = false);
