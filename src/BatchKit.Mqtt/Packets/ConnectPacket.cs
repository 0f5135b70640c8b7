namespace BatchKit.Mqtt.Packets;

/// <summary>CONNECT (MQTT 5, section 3.1).</summary>
internal static class ConnectPacket
{
    // Name, level, flags and keep-alive.
    private const int FixedBytes = 10;

    /// <summary>Writes the packet.</summary>
    /// <returns>It, in an array of its exact size; it holds the password, so clear it when it is sent.</returns>
    /// <exception cref="MqttProtocolException">
    /// A text is longer than 65,535 bytes, or has no UTF-8, or the will's topic is not one to publish to; or there is a password without a user name, which 3.1.1 does not have.
    /// </exception>
    public static byte[] Write(ConnectFields fields)
    {
        Check(fields);
        var will = fields.Will is { } asked ? WillFields.Of(asked) : default;
        var bodyBytes = FixedBytes + ConnectProperties.MeasureWithLength(fields) + MeasureText(fields.ClientId);
        if (fields.Will is not null)
            bodyBytes += WillFields.Measure(fields.Will, will, fields.Version);
        if (fields.Credentials.UserName is { } userName)
            bodyBytes += MeasureText(userName);
        if (!fields.Credentials.Password.IsEmpty)
            bodyBytes += sizeof(ushort) + fields.Credentials.Password.Length;

        var packet = new byte[1 + VariableByteInteger.Measure(bodyBytes) + bodyBytes];
        var writer = new PacketWriter(packet);
        writer.WriteHeader(PacketType.Connect, flags: 0, checked((int)bodyBytes));
        writer.WriteText("MQTT");
        writer.WriteByte((byte)fields.Version);
        writer.WriteByte(FlagsOf(fields, will));
        writer.WriteTwoBytes(fields.KeepAlive);
        ConnectProperties.WriteWithLength(ref writer, fields);
        writer.WriteText(fields.ClientId);
        if (fields.Will is not null)
            WillFields.Write(ref writer, fields.Will, will, fields.Version);
        if (fields.Credentials.UserName is not null)
            writer.WriteText(fields.Credentials.UserName);
        if (!fields.Credentials.Password.IsEmpty)
            writer.WriteBinary(fields.Credentials.Password.Span);
        return packet;
    }

    private static void Check(ConnectFields fields)
    {
        if (PacketText.FindFault(fields.ClientId) is { } clientIdFault)
            throw MqttProtocolException.Malformed($"The client id {clientIdFault}.");
        if (fields.Credentials.UserName is { } userName && PacketText.FindFault(userName) is { } userNameFault)
            throw MqttProtocolException.Malformed($"The user name {userNameFault}.");
        if (fields.Credentials.Password.Length > PacketText.MaxBytes)
            throw MqttProtocolException.Malformed($"The password has more than {PacketText.MaxBytes} bytes.");
        // MQTT 3.1.1, MQTT-3.1.2-22.
        if (fields.Version != MqttVersion.V5 && fields.Credentials.UserName is null && !fields.Credentials.Password.IsEmpty)
            throw MqttProtocolException.Forbidden("There is a password without a user name, which MQTT 3.1.1 does not have.");
        if (fields.Will is { } will && WillFields.FindFault(will, fields.Version) is { } willFault)
            throw MqttProtocolException.Malformed($"The will can't be sent. {willFault}");
    }

    private static long MeasureText(string text) => sizeof(ushort) + PacketText.Strict.GetByteCount(text);

    // Section 3.1.2.3.
    private static byte FlagsOf(ConnectFields fields, in PublishFields will)
    {
        var flags = fields.CleanStart ? 0b0000_0010 : 0;
        if (fields.Will is not null)
            flags |= 0b0000_0100 | (int)will.QualityOfService << 3 | (will.Retain ? 0b0010_0000 : 0);
        if (!fields.Credentials.Password.IsEmpty)
            flags |= 0b0100_0000;
        if (fields.Credentials.UserName is not null)
            flags |= 0b1000_0000;
        return (byte)flags;
    }
}
