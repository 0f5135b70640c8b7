namespace BatchKit.Mqtt.Packets;

/// <summary>PUBACK (MQTT 5, section 3.4).</summary>
internal static class PubackPacket
{
    /// <summary>What an acknowledgement without a reason code takes.</summary>
    public const int Bytes = 4;

    /// <summary>Writes one that says success, which is the same in both versions.</summary>
    public static void Write(Span<byte> target, ushort packetId) => throw new NotSupportedException();

    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static ushort Read(ReadOnlySpan<byte> body, MqttVersion version, out MqttReasonCode reasonCode, out string? reason) => throw new NotSupportedException();
}
