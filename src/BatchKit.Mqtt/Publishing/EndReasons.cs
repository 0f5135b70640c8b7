namespace BatchKit.Mqtt.Publishing;

/// <summary>What the reason code of the broker's DISCONNECT says about the messages in flight. See docs/decisions/0138.</summary>
internal static class EndReasons
{
    /// <summary>True when one of the messages is the reason.</summary>
    public static bool BlamesMessage(MqttReasonCode reasonCode) => reasonCode is MqttReasonCode.MalformedPacket or MqttReasonCode.ProtocolError or MqttReasonCode.TopicNameInvalid
        or MqttReasonCode.PacketTooLarge or MqttReasonCode.PayloadFormatInvalid or MqttReasonCode.RetainNotSupported or MqttReasonCode.QoSNotSupported;

    /// <summary>
    /// True when the broker would have ended the connection without the messages too. Any other reason may be a message's: brokers end the connection with 0x00, 0x80, 0x83, 0x87 or 0x98 for a message that they
    /// don't allow.
    /// </summary>
    public static bool IsHarmless(MqttReasonCode reasonCode) => reasonCode is MqttReasonCode.ServerUnavailable or MqttReasonCode.ServerBusy or MqttReasonCode.Banned
        or MqttReasonCode.ServerShuttingDown or MqttReasonCode.KeepAliveTimeout or MqttReasonCode.SessionTakenOver or MqttReasonCode.MessageRateTooHigh or MqttReasonCode.QuotaExceeded
        or MqttReasonCode.UseAnotherServer or MqttReasonCode.ServerMoved or MqttReasonCode.ConnectionRateExceeded or MqttReasonCode.MaximumConnectTime;
}
