namespace BatchKit.Mqtt.Packets;

/// <summary>CONNECT (MQTT 5, section 3.1).</summary>
internal static class ConnectPacket
{
    /// <summary>Writes the packet.</summary>
    /// <returns>It, in an array of its exact size; it holds the password, so clear it when it is sent.</returns>
    /// <exception cref="MqttProtocolException">A text is longer than 65,535 bytes.</exception>
    public static byte[] Write(ConnectFields fields) => throw new NotSupportedException();
}
