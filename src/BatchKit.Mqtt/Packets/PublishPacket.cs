namespace BatchKit.Mqtt.Packets;

/// <summary>PUBLISH (MQTT 5, section 3.3; 3.1.1, section 3.3).</summary>
internal static class PublishPacket
{
    private const int TopicAliasBytes = 1 + sizeof(ushort);

    /// <summary>
    /// What is wrong with the properties, for a person; null when they may be sent. To be asked before <see cref="Measure"/>: a text that is not UTF-16 is never sent as another
    /// one, and a broker would close the connection for a control character. The topic is checked by <see cref="MqttTopics"/>.
    /// </summary>
    /// <param name="fields">What the packet says.</param>
    /// <param name="version">The connection's version; 3.1.1 leaves the properties out, so there nothing can be wrong with them.</param>
    public static string? FindFault(in PublishFields fields, MqttVersion version) => version == MqttVersion.V5 ? MessageProperties.FindFault(fields) : null;

    /// <summary>The bytes that the packet takes, header included; a long, because fields may add up to more than any packet has.</summary>
    /// <param name="fields">What it says.</param>
    /// <param name="version">The connection's version; 3.1.1 leaves the properties out.</param>
    /// <param name="topicAlias">The topic's number on this connection, or zero for none.</param>
    /// <param name="isTopicKnown">True leaves the topic out, because the alias was given it before on this connection.</param>
    /// <exception cref="ArgumentException">A text holds half a surrogate pair.</exception>
    public static long Measure(in PublishFields fields, MqttVersion version, ushort topicAlias = 0, bool isTopicKnown = false)
    {
        var bodyBytes = MeasureBody(fields, version, MeasureProperties(fields, version, topicAlias), isTopicKnown);
        return 1 + VariableByteInteger.Measure(bodyBytes) + bodyBytes;
    }

    /// <summary>Writes the packet into memory that is large enough, as <see cref="Measure"/> says.</summary>
    /// <returns>How many bytes it took.</returns>
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

    /// <summary>Reads a packet that was received. Strict: what the protocol forbids is refused (section 4.13).</summary>
    /// <param name="header">As <see cref="PacketHeader.TryRead"/> gave it.</param>
    /// <param name="body">What follows the header.</param>
    /// <param name="version">The connection's version.</param>
    /// <exception cref="MqttProtocolException">It is malformed.</exception>
    public static ReceivedPublish Read(PacketHeader header, ReadOnlySpan<byte> body, MqttVersion version)
    {
        var reader = new PacketReader(body);
        var publish = new ReceivedPublish
        {
            Topic = reader.ReadText(),
            QualityOfService = (MqttQualityOfService)((header.Flags & PublishFlags.QualityOfServiceMask) >> PublishFlags.QualityOfServiceShift),
            Retain = (header.Flags & PublishFlags.Retain) != 0,
            IsDuplicate = (header.Flags & PublishFlags.Duplicate) != 0,
        };
        CheckTopic(publish.Topic);
        if (publish.QualityOfService != MqttQualityOfService.AtMostOnce)
            publish.PacketId = reader.ReadPacketId();
        if (version == MqttVersion.V5)
            ReadProperties(reader.ReadProperties(), ref publish);
        if (publish.Topic.IsEmpty && publish.TopicAlias == 0)
            throw MqttProtocolException.Forbidden("A PUBLISH has neither a topic nor an alias for one.");
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

    // A message of QoS 0 is never said to be sent again (MQTT-3.3.1-2).
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
                    // Not checked further: brokers pass on what its publisher wrote, and to close the connection would have it sent again, for ever.
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

    // MQTT-3.3.2-2.
    private static void CheckTopic(ReadOnlySpan<byte> topic)
    {
        if (topic.ContainsAny((byte)'+', (byte)'#'))
            throw MqttProtocolException.Forbidden("The topic of a PUBLISH holds a wildcard.");
    }
}
