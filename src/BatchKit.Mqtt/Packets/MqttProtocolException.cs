namespace BatchKit.Mqtt.Packets;

/// <summary>The other side sent what the protocol forbids; the connection is closed with the reason code. Its message holds nothing of what was sent.</summary>
internal sealed class MqttProtocolException(MqttReasonCode reasonCode, string message) : Exception(message)
{
    public MqttReasonCode ReasonCode { get; } = reasonCode;

    /// <summary>It can't be parsed (MQTT 5, section 4.13).</summary>
    public static MqttProtocolException Malformed(string message) => new(MqttReasonCode.MalformedPacket, message);

    /// <summary>It was parsed, and says what is not allowed (MQTT 5, section 4.13).</summary>
    public static MqttProtocolException Forbidden(string message) => new(MqttReasonCode.ProtocolError, message);
}
