namespace BatchKit.Mqtt.Packets;

/// <summary>DISCONNECT (MQTT 5, section 3.14).</summary>
internal static class DisconnectPacket
{
    /// <summary>Writes the packet; 3.1.1 has neither the code nor the expiry.</summary>
    /// <param name="version">The connection's.</param>
    /// <param name="reasonCode">Why.</param>
    /// <param name="sessionExpiry">Another session expiry than CONNECT's, in seconds; null leaves it.</param>
    public static byte[] Write(MqttVersion version, MqttReasonCode reasonCode, uint? sessionExpiry = null) => throw new NotSupportedException();

    /// <summary>Reads what a broker sent.</summary>
    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static MqttReasonCode Read(ReadOnlySpan<byte> body, MqttVersion version, out string? reason) => throw new NotSupportedException();
}
