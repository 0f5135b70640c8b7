namespace BatchKit.Mqtt.Packets;

/// <summary>SUBACK (MQTT 5, section 3.9): a reason code for each subscription, in their order.</summary>
internal sealed record SubackPacket(ushort PacketId, IReadOnlyList<MqttReasonCode> ReasonCodes, string? Reason)
{
    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static SubackPacket Read(ReadOnlySpan<byte> body, MqttVersion version) => throw new NotSupportedException();
}
