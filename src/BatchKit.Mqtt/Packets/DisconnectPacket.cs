namespace BatchKit.Mqtt.Packets;

/// <summary>DISCONNECT (MQTT 5, section 3.14).</summary>
internal static class DisconnectPacket
{
    private const byte SessionExpiryBytes = 1 + sizeof(uint);

    /// <summary>Writes the packet; 3.1.1 has neither the code nor the expiry.</summary>
    /// <param name="version">The connection's.</param>
    /// <param name="reasonCode">Why.</param>
    /// <param name="sessionExpiry">Another session expiry than CONNECT's, in seconds; null leaves it.</param>
    public static byte[] Write(MqttVersion version, MqttReasonCode reasonCode, uint? sessionExpiry = null)
    {
        if (version != MqttVersion.V5)
            return [(int)PacketType.Disconnect << 4, 0];
        if (sessionExpiry is not { } seconds)
            return [(int)PacketType.Disconnect << 4, 2, (byte)reasonCode, 0];
        var packet = new byte[4 + SessionExpiryBytes];
        var writer = new PacketWriter(packet);
        writer.WriteHeader(PacketType.Disconnect, flags: 0, packet.Length - 2);
        writer.WriteByte((byte)reasonCode);
        writer.WriteLength(SessionExpiryBytes);
        writer.WriteByte((byte)PropertyId.SessionExpiry);
        writer.WriteFourBytes(seconds);
        return packet;
    }

    /// <summary>Reads what a broker sent.</summary>
    /// <exception cref="MqttProtocolException">It is malformed, or the version is 3.1.1, where a broker sends none.</exception>
    public static MqttReasonCode Read(ReadOnlySpan<byte> body, MqttVersion version, out string? reason)
    {
        if (version != MqttVersion.V5)
            throw MqttProtocolException.Forbidden("A DISCONNECT came from the broker, which MQTT 3.1.1 does not have.");
        reason = null;
        if (body.IsEmpty)
            return MqttReasonCode.Success;
        var reader = new PacketReader(body);
        var reasonCode = ReasonCodes.Read(reader.ReadByte(), MqttReasonCode.Success);
        // No properties' length is a length of 0 (section 3.14.2.2.1).
        if (!reader.Rest.IsEmpty)
            reason = ReasonProperty.Read(reader.ReadProperties(), PropertySets.Disconnect);
        reader.RequireEnd();
        return reasonCode;
    }
}
