namespace BatchKit.Mqtt.Packets;

/// <summary>What every packet begins with (MQTT 5, section 2.1).</summary>
/// <param name="Type">Which packet it is.</param>
/// <param name="Flags">The four bits beside the type.</param>
/// <param name="BodyBytes">How many bytes follow the header.</param>
internal readonly record struct PacketHeader(PacketType Type, byte Flags, int BodyBytes)
{
    /// <summary>Reads a header and checks its flags.</summary>
    /// <param name="input">What has arrived so far; from the packet's first byte.</param>
    /// <param name="maxPacketBytes">The largest packet that is taken, header included.</param>
    /// <param name="header">The header.</param>
    /// <param name="headerBytes">How many bytes it took.</param>
    /// <returns>False when more must arrive first.</returns>
    /// <exception cref="MqttProtocolException">It is malformed, or the packet too large.</exception>
    public static bool TryRead(ReadOnlySpan<byte> input, int maxPacketBytes, out PacketHeader header, out int headerBytes) =>
        throw new NotSupportedException();
}
