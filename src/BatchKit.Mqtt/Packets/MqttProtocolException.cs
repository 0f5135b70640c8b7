namespace BatchKit.Mqtt.Packets;

/// <summary>The other side sent what the protocol forbids; the connection is closed with the reason code.</summary>
internal sealed class MqttProtocolException(MqttReasonCode reasonCode, string message) : Exception(message)
{
    public MqttReasonCode ReasonCode { get; } = reasonCode;
}
