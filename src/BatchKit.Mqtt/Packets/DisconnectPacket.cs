namespace BatchKit.Mqtt.Packets;

/// <summary>DISCONNECT (MQTT 5, section 3.14).</summary>
internal static class DisconnectPacket
{
    private const byte SessionExpiryBytes = 1 + sizeof(uint);

    /// <summary>Writes the packet. In 3.1.1 it has neither a reason code nor a session expiry.</summary>
    /// <param name="version">The connection's version.</param>
    /// <param name="reasonCode">The reason code.</param>
    /// <param name="sessionExpiry">A session expiry that replaces CONNECT's, in seconds; null keeps CONNECT's.</param>
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

    /// <summary>Reads a DISCONNECT of the broker: its reason, and the other server that it names, in its own words.</summary>
    /// <exception cref="MqttProtocolException">The packet is malformed, or the version is 3.1.1, in which a broker must not send it.</exception>
    public static MqttReasonCode Read(ReadOnlySpan<byte> body, MqttVersion version, out string? reason, out string? serverReference)
    {
        if (version != MqttVersion.V5)
            throw MqttProtocolException.Forbidden("The broker sent a DISCONNECT, which MQTT 3.1.1 does not allow.");
        reason = serverReference = null;
        if (body.IsEmpty)
            return MqttReasonCode.Success;
        var reader = new PacketReader(body);
        var reasonCode = ReasonCodes.Read(reader.ReadByte(), MqttReasonCode.Success);
        // A missing length of the properties means a length of 0 (section 3.14.2.2.1).
        if (!reader.Rest.IsEmpty)
            reason = ReasonProperty.Read(reader.ReadProperties(), PropertySets.Disconnect, out serverReference);
        reader.RequireEnd();
        return reasonCode;
    }
}
