namespace BatchKit.Mqtt.Packets;

/// <summary>CONNECT (MQTT 5, section 3.1).</summary>
internal static class ConnectPacket
{
    // Name, level, flags and keep-alive.
    private const int FixedBytes = 10;

    /// <summary>Writes the packet.</summary>
    /// <returns>An array of exactly the packet's size. It contains the password: clear it after the packet is sent.</returns>
    /// <exception cref="MqttProtocolException">
    /// A text is longer than 65,535 bytes or can't be encoded as UTF-8, or the will's topic is invalid, or there is a password without a user name, which 3.1.1 does not allow.
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
            throw MqttProtocolException.Forbidden("There is a password without a user name, which MQTT 3.1.1 does not allow.");
        if (fields.Will is { } will && WillFields.FindFault(will, fields.Version) is { } willFault)
            throw MqttProtocolException.Malformed($"The will is invalid. {willFault}");
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

/// <summary>The content of a CONNECT.</summary>
internal sealed record ConnectFields
{
    public required MqttVersion Version { get; init; }

    public required string ClientId { get; init; }

    public required MqttCredentials Credentials { get; init; }

    public required bool CleanStart { get; init; }

    /// <summary>In seconds.</summary>
    public required ushort KeepAlive { get; init; }

    /// <summary>In seconds; MQTT 5 only.</summary>
    public required uint SessionExpiry { get; init; }

    public required ushort ReceiveMaximum { get; init; }

    public required uint MaxPacketBytes { get; init; }

    public required ushort TopicAliasMaximum { get; init; }

    /// <summary>Null for none. QoS 0, not retained and without expiry, as far as its message leaves them open.</summary>
    public required MqttWill? Will { get; init; }
}

/// <summary>The properties of CONNECT (MQTT 5, section 3.1.2.11) whose values differ from the defaults of the protocol.</summary>
internal static class ConnectProperties
{
    private const int TwoBytesProperty = 1 + sizeof(ushort);
    private const int FourBytesProperty = 1 + sizeof(uint);

    /// <summary>The size in bytes of the properties and their length prefix; zero in 3.1.1.</summary>
    public static long MeasureWithLength(ConnectFields fields) => fields.Version == MqttVersion.V5 ? 1 + Measure(fields) : 0;

    public static void WriteWithLength(ref PacketWriter writer, ConnectFields fields)
    {
        if (fields.Version != MqttVersion.V5)
            return;
        writer.WriteLength(Measure(fields));
        if (fields.SessionExpiry != 0)
        {
            writer.WriteByte((byte)PropertyId.SessionExpiry);
            writer.WriteFourBytes(fields.SessionExpiry);
        }

        if (fields.ReceiveMaximum != ushort.MaxValue)
        {
            writer.WriteByte((byte)PropertyId.ReceiveMaximum);
            writer.WriteTwoBytes(fields.ReceiveMaximum);
        }

        if (fields.MaxPacketBytes != uint.MaxValue)
        {
            writer.WriteByte((byte)PropertyId.MaximumPacketSize);
            writer.WriteFourBytes(fields.MaxPacketBytes);
        }

        if (fields.TopicAliasMaximum != 0)
        {
            writer.WriteByte((byte)PropertyId.TopicAliasMaximum);
            writer.WriteTwoBytes(fields.TopicAliasMaximum);
        }
    }

    private static int Measure(ConnectFields fields) =>
        (fields.SessionExpiry != 0 ? FourBytesProperty : 0)
        + (fields.ReceiveMaximum != ushort.MaxValue ? TwoBytesProperty : 0)
        + (fields.MaxPacketBytes != uint.MaxValue ? FourBytesProperty : 0)
        + (fields.TopicAliasMaximum != 0 ? TwoBytesProperty : 0);
}

/// <summary>Writes a will as part of CONNECT (MQTT 5, sections 3.1.3.2 to 3.1.3.4).</summary>
internal static class WillFields
{
    private const int DelayBytes = 1 + sizeof(uint);

    public static PublishFields Of(MqttWill will) => new()
    {
        Topic = will.Message.Topic,
        Payload = will.Message.Payload.Span,
        QualityOfService = will.Message.QualityOfService ?? MqttQualityOfService.AtMostOnce,
        Retain = will.Message.Retain ?? false,
        Expiry = Seconds(will.Message.Expiry ?? TimeSpan.Zero),
        UserProperties = will.Message.UserProperties.Span,
        ContentType = will.Message.ContentType,
        ResponseTopic = will.Message.ResponseTopic,
        CorrelationData = will.Message.CorrelationData.Span,
    };

    /// <summary>A human-readable description of what is wrong with a will; null when it may be sent.</summary>
    public static string? FindFault(MqttWill will, MqttVersion version)
    {
        if (MqttTopics.FindFaultInName(will.Message.Topic, allowSystemTopics: true) is { } fault)
            return fault;
        return will.Message.Payload.Length > PacketText.MaxBytes ? $"Its payload has more than {PacketText.MaxBytes} bytes." : PublishPacket.FindFault(Of(will), version);
    }

    /// <summary>The size in bytes of the will in CONNECT's payload.</summary>
    public static long Measure(MqttWill will, in PublishFields fields, MqttVersion version)
    {
        var bytes = (2L * sizeof(ushort)) + PacketText.Strict.GetByteCount(fields.Topic) + fields.Payload.Length;
        if (version != MqttVersion.V5)
            return bytes;
        var propertyBytes = MeasureProperties(will, fields);
        return bytes + VariableByteInteger.Measure(propertyBytes) + propertyBytes;
    }

    public static void Write(ref PacketWriter writer, MqttWill will, in PublishFields fields, MqttVersion version)
    {
        if (version == MqttVersion.V5)
        {
            writer.WriteLength(checked((int)MeasureProperties(will, fields)));
            if (Seconds(will.Delay) is var delay and > 0)
            {
                writer.WriteByte((byte)PropertyId.WillDelay);
                writer.WriteFourBytes(delay);
            }

            MessageProperties.Write(ref writer, fields);
        }

        writer.WriteText(fields.Topic);
        writer.WriteBinary(fields.Payload);
    }

    private static long MeasureProperties(MqttWill will, in PublishFields fields) => MessageProperties.Measure(fields) + (Seconds(will.Delay) > 0 ? DelayBytes : 0);

    private static uint Seconds(TimeSpan time) => (uint)Math.Clamp(Math.Ceiling(time.TotalSeconds), 0, uint.MaxValue);
}
