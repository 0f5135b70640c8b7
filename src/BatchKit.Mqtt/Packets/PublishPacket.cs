using System.Buffers.Binary;

namespace BatchKit.Mqtt.Packets;

/// <summary>PUBLISH (MQTT 5, section 3.3; 3.1.1, section 3.3).</summary>
internal static class PublishPacket
{
    /// <summary>The size of a topic alias in the properties.</summary>
    public const int TopicAliasBytes = 1 + sizeof(ushort);

    /// <summary>
    /// A human-readable description of what is wrong with the properties; null when they may be sent. Call it before <see cref="Measure"/>: invalid UTF-16 must not be replaced by other
    /// text, and a broker closes the connection when it receives a control character. <see cref="MqttTopics"/> checks the topic.
    /// </summary>
    /// <param name="fields">The content of the packet.</param>
    /// <param name="version">The connection's version; 3.1.1 has no properties, so the result is null.</param>
    public static string? FindFault(in PublishFields fields, MqttVersion version) => version == MqttVersion.V5 ? MessageProperties.FindFault(fields) : null;

    /// <summary>The size of the packet in bytes, including its header. It is a long because the fields may exceed the largest packet.</summary>
    /// <param name="fields">The content of the packet.</param>
    /// <param name="version">The connection's version; 3.1.1 has no properties.</param>
    /// <param name="topicAlias">The topic's alias on this connection, or zero for none.</param>
    /// <param name="isTopicKnown">True omits the topic, because an earlier packet on this connection has defined the alias.</param>
    /// <exception cref="ArgumentException">A text holds half a surrogate pair.</exception>
    public static long Measure(in PublishFields fields, MqttVersion version, ushort topicAlias = 0, bool isTopicKnown = false)
    {
        var bodyBytes = MeasureBody(fields, version, MeasureProperties(fields, version, topicAlias), isTopicKnown);
        return 1 + VariableByteInteger.Measure(bodyBytes) + bodyBytes;
    }

    /// <summary>Writes the packet into memory of at least the size that <see cref="Measure"/> returns.</summary>
    /// <returns>The number of bytes written.</returns>
    /// <exception cref="ArgumentException">A text holds half a surrogate pair.</exception>
    /// <exception cref="MqttProtocolException">A text is longer than 65,535 bytes.</exception>
    public static int Write(
        Span<byte> target, in PublishFields fields, MqttVersion version, ushort packetId, bool isDuplicate, ushort topicAlias = 0, bool isTopicKnown = false)
    {
        var writer = new PacketWriter(target);
        var propertyBytes = MeasureProperties(fields, version, topicAlias);
        writer.WriteHeader(PacketType.Publish, FlagsOf(fields, isDuplicate), checked((int)MeasureBody(fields, version, propertyBytes, isTopicKnown)));
        writer.WriteText(isTopicKnown ? "" : fields.Topic);
        if (fields.QualityOfService != MqttQualityOfService.AtMostOnce)
            writer.WriteTwoBytes(packetId);
        if (version == MqttVersion.V5)
        {
            writer.WriteLength((int)propertyBytes);
            if (topicAlias > 0)
            {
                writer.WriteByte((byte)PropertyId.TopicAlias);
                writer.WriteTwoBytes(topicAlias);
            }

            MessageProperties.Write(ref writer, fields);
        }

        writer.WriteBytes(fields.Payload);
        return writer.Length;
    }

    /// <summary>Shortens a packet that is too large to its topic and its packet id, with which it can be acknowledged.</summary>
    /// <param name="header">The packet's header; afterwards that of the shortened packet.</param>
    /// <param name="arrived">The bytes after the header that have arrived so far.</param>
    /// <returns>False when more must arrive first.</returns>
    public static bool TryOmitPayload(ref PacketHeader header, ReadOnlySpan<byte> arrived)
    {
        if (arrived.Length < sizeof(ushort))
            return false;
        var hasPacketId = (header.Flags & PublishFlags.QualityOfServiceMask) != 0;
        var bytes = sizeof(ushort) + BinaryPrimitives.ReadUInt16BigEndian(arrived) + (hasPacketId ? sizeof(ushort) : 0);
        // The topic is longer than its packet, which Read refuses.
        if (bytes > header.BodyBytes)
            bytes = sizeof(ushort);
        if (arrived.Length < bytes)
            return false;
        header = header with { BodyBytes = bytes, OmittedBytes = header.BodyBytes - bytes };
        return true;
    }

    /// <summary>Reads a received packet and refuses everything that the protocol forbids (section 4.13). Of a shortened packet it reads the topic and the packet id only.</summary>
    /// <param name="header">The header that <see cref="PacketHeader.TryRead"/> returned.</param>
    /// <param name="body">The bytes after the header.</param>
    /// <param name="version">The connection's version.</param>
    /// <exception cref="MqttProtocolException">The packet is malformed.</exception>
    public static ReceivedPublish Read(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version)
    {
        CheckFlags(header.Flags);
        var reader = new PacketReader(body);
        var publish = new ReceivedPublish
        {
            Topic = reader.ReadText(),
            QualityOfService = (MqttQualityOfService)((header.Flags & PublishFlags.QualityOfServiceMask) >> PublishFlags.QualityOfServiceShift),
            Retain = (header.Flags & PublishFlags.Retain) != 0,
            IsDuplicate = (header.Flags & PublishFlags.Duplicate) != 0,
            OmittedBytes = header.OmittedBytes,
        };
        CheckTopic(publish.Topic);
        if (publish.QualityOfService != MqttQualityOfService.AtMostOnce)
            publish.PacketId = reader.ReadPacketId();
        if (header.OmittedBytes > 0)
            return publish;
        if (version == MqttVersion.V5)
            ReadProperties(reader.ReadProperties(), ref publish);
        if (publish.Topic.IsEmpty && publish.TopicAlias == 0)
            throw MqttProtocolException.Forbidden("A PUBLISH has neither a topic nor a topic alias.");
        publish.Payload = reader.Rest;
        return publish;
    }

    private static long MeasureProperties(in PublishFields fields, MqttVersion version, ushort topicAlias) =>
        version == MqttVersion.V5 ? MessageProperties.Measure(fields) + (topicAlias > 0 ? TopicAliasBytes : 0) : 0;

    private static long MeasureBody(in PublishFields fields, MqttVersion version, long propertyBytes, bool isTopicKnown)
    {
        var bytes = sizeof(ushort) + (isTopicKnown ? 0 : PacketText.Strict.GetByteCount(fields.Topic)) + propertyBytes + fields.Payload.Length;
        if (fields.QualityOfService != MqttQualityOfService.AtMostOnce)
            bytes += sizeof(ushort);
        return version == MqttVersion.V5 ? bytes + VariableByteInteger.Measure(propertyBytes) : bytes;
    }

    // A message of QoS 0 never has the DUP flag (MQTT-3.3.1-2).
    private static int FlagsOf(in PublishFields fields, bool isDuplicate) =>
        (int)fields.QualityOfService << PublishFlags.QualityOfServiceShift
        | (fields.Retain ? PublishFlags.Retain : 0)
        | (isDuplicate && fields.QualityOfService != MqttQualityOfService.AtMostOnce ? PublishFlags.Duplicate : 0);

    private static void ReadProperties(ReadOnlySpan<byte> properties, ref ReceivedPublish publish)
    {
        publish.Properties = properties;
        var reader = new PropertyReader(properties, PropertySets.Publish);
        while (reader.TryRead(out var property))
        {
            switch (property.Id)
            {
                case PropertyId.TopicAlias:
                    publish.TopicAlias = (ushort)property.Number;
                    break;
                case PropertyId.ContentType:
                    publish.ContentType = property.Value;
                    break;
                case PropertyId.ResponseTopic:
                    // Not validated, because a broker passes on what the publisher wrote. If this client closed the connection, the broker would send the message again on every connection.
                    publish.ResponseTopic = property.Value;
                    break;
                case PropertyId.CorrelationData:
                    publish.CorrelationData = property.Value;
                    break;
                case PropertyId.UserProperty:
                    publish.HasUserProperties = true;
                    break;
                default:
                    break;
            }
        }
    }

    // Section 3.3.1.
    private static void CheckFlags(byte flags)
    {
        if ((flags & PublishFlags.QualityOfServiceMask) == PublishFlags.QualityOfServiceMask)
            throw MqttProtocolException.Malformed("A PUBLISH asks for QoS 3.");
        if ((flags & PublishFlags.QualityOfServiceMask) == 0 && (flags & PublishFlags.Duplicate) != 0)
            throw MqttProtocolException.Malformed("A PUBLISH of QoS 0 has the DUP flag.");
    }

    // MQTT-3.3.2-2.
    private static void CheckTopic(ReadOnlySpan<byte> topic)
    {
        if (topic.ContainsAny((byte)'+', (byte)'#'))
            throw MqttProtocolException.Forbidden("The topic of a PUBLISH holds a wildcard.");
    }
}

/// <summary>The content of a PUBLISH to be written; the caller owns its memory.</summary>
internal ref struct PublishFields
{
    public string Topic;
    public ReadOnlySpan<byte> Payload;
    public MqttQualityOfService QualityOfService;
    public bool Retain;

    /// <summary>In seconds; zero means never.</summary>
    public uint Expiry;

    public ReadOnlySpan<KeyValuePair<string, string>> UserProperties;
    public string? ContentType;
    public string? ResponseTopic;
    public ReadOnlySpan<byte> CorrelationData;
}

/// <summary>A received PUBLISH; it refers to the memory of the packet.</summary>
internal ref struct ReceivedPublish
{
    /// <summary>Valid UTF-8; empty when <see cref="TopicAlias"/> replaces it.</summary>
    public ReadOnlySpan<byte> Topic;
    public ReadOnlySpan<byte> Payload;
    public MqttQualityOfService QualityOfService;
    public bool Retain;
    public bool IsDuplicate;

    /// <summary>Zero for QoS 0.</summary>
    public ushort PacketId;

    /// <summary>The payload's size when the packet was too large to be kept, and <see cref="Payload"/> is empty; otherwise zero.</summary>
    public int OmittedBytes;

    /// <summary>Zero for none.</summary>
    public ushort TopicAlias;

    /// <summary>All properties as they are on the wire, validated; <see cref="UserProperties.Read"/> finds the user properties in them.</summary>
    public ReadOnlySpan<byte> Properties;
    public bool HasUserProperties;
    public ReadOnlySpan<byte> ContentType;
    public ReadOnlySpan<byte> ResponseTopic;
    public ReadOnlySpan<byte> CorrelationData;
}

/// <summary>The flags in the header of a PUBLISH (MQTT 5, section 3.3.1).</summary>
internal static class PublishFlags
{
    public const byte Retain = 0b0001;
    public const byte QualityOfServiceMask = 0b0110;
    public const int QualityOfServiceShift = 1;
    public const byte Duplicate = 0b1000;
}
