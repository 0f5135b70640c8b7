using System.Collections.Immutable;
using System.Runtime.InteropServices;
using System.Text;

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

/// <summary>What a PUBLISH to be written says; its memory is the caller's.</summary>
internal ref struct PublishFields
{
    public string Topic;
    public ReadOnlySpan<byte> Payload;
    public MqttQualityOfService QualityOfService;
    public bool Retain;

    /// <summary>In seconds; zero is never.</summary>
    public uint Expiry;

    public ReadOnlySpan<KeyValuePair<string, string>> UserProperties;
    public string? ContentType;
    public string? ResponseTopic;
    public ReadOnlySpan<byte> CorrelationData;
}

/// <summary>A PUBLISH that was received; its memory is the packet's.</summary>
internal ref struct ReceivedPublish
{
    /// <summary>In UTF-8, checked; empty when <see cref="TopicAlias"/> stands for it.</summary>
    public ReadOnlySpan<byte> Topic;
    public ReadOnlySpan<byte> Payload;
    public MqttQualityOfService QualityOfService;
    public bool Retain;
    public bool IsDuplicate;

    /// <summary>Zero with QoS 0.</summary>
    public ushort PacketId;

    /// <summary>Zero for none.</summary>
    public ushort TopicAlias;

    /// <summary>The user properties as they are on the wire, checked, one behind the other with their identifiers; other properties may lie between them.</summary>
    public ReadOnlySpan<byte> Properties;
    public bool HasUserProperties;
    public ReadOnlySpan<byte> ContentType;
    public ReadOnlySpan<byte> ResponseTopic;
    public ReadOnlySpan<byte> CorrelationData;
}

/// <summary>The properties that a PUBLISH and a will have in common (MQTT 5, sections 3.3.2.3 and 3.1.3.2), on their way out.</summary>
internal static class MessageProperties
{
    // An identifier, and the lengths before texts.
    private const int NumberBytes = 1 + sizeof(uint);
    private const int TextBytes = 1 + sizeof(ushort);
    private const int PairBytes = 1 + (2 * sizeof(ushort));

    /// <summary>What is wrong with them, for a person; null when they may be sent.</summary>
    public static string? FindFault(in PublishFields fields)
    {
        if (fields.ContentType is { } contentType && PacketText.FindFault(contentType) is { } contentTypeFault)
            return $"The content type {MqttTopics.Show(contentType)} {contentTypeFault}.";
        if (fields.ResponseTopic is { } responseTopic && MqttTopics.FindFaultInName(responseTopic, allowSystemTopics: true) is { } responseTopicFault)
            return $"Response topic: {responseTopicFault}";
        if (fields.CorrelationData.Length > PacketText.MaxBytes)
            return $"The correlation data has more than {PacketText.MaxBytes} bytes.";
        foreach (var (name, value) in fields.UserProperties)
        {
            if (PacketText.FindFault(name) is { } nameFault)
                return name is null ? $"A user property's name {nameFault}." : $"The user property's name {MqttTopics.Show(name)} {nameFault}.";
            if (PacketText.FindFault(value) is { } valueFault)
                return $"The value of the user property {MqttTopics.Show(name)} {valueFault}.";
        }

        return null;
    }

    public static long Measure(in PublishFields fields)
    {
        var bytes = fields.Expiry > 0 ? NumberBytes : 0L;
        if (fields.ContentType is { } contentType)
            bytes += TextBytes + PacketText.Strict.GetByteCount(contentType);
        if (fields.ResponseTopic is { } responseTopic)
            bytes += TextBytes + PacketText.Strict.GetByteCount(responseTopic);
        if (!fields.CorrelationData.IsEmpty)
            bytes += TextBytes + fields.CorrelationData.Length;
        foreach (ref readonly var property in fields.UserProperties)
            bytes += PairBytes + PacketText.Strict.GetByteCount(property.Key) + PacketText.Strict.GetByteCount(property.Value);
        return bytes;
    }

    public static void Write(ref PacketWriter writer, in PublishFields fields)
    {
        if (fields.Expiry > 0)
        {
            writer.WriteByte((byte)PropertyId.MessageExpiry);
            writer.WriteFourBytes(fields.Expiry);
        }

        if (fields.ContentType is { } contentType)
        {
            writer.WriteByte((byte)PropertyId.ContentType);
            writer.WriteText(contentType);
        }

        if (fields.ResponseTopic is { } responseTopic)
        {
            writer.WriteByte((byte)PropertyId.ResponseTopic);
            writer.WriteText(responseTopic);
        }

        if (!fields.CorrelationData.IsEmpty)
        {
            writer.WriteByte((byte)PropertyId.CorrelationData);
            writer.WriteBinary(fields.CorrelationData);
        }

        foreach (ref readonly var property in fields.UserProperties)
        {
            writer.WriteByte((byte)PropertyId.UserProperty);
            writer.WriteText(property.Key);
            writer.WriteText(property.Value);
        }
    }
}

/// <summary>The user properties of a PUBLISH that was received (MQTT 5, section 3.3.2.3.7).</summary>
internal static class UserProperties
{
    /// <summary>Reads them from <see cref="ReceivedPublish.Properties"/>, in order.</summary>
    /// <exception cref="MqttProtocolException">They were not checked before, and are malformed.</exception>
    public static ImmutableArray<KeyValuePair<string, string>> Read(ReadOnlySpan<byte> properties)
    {
        var count = Count(properties);
        if (count == 0)
            return [];
        var found = new KeyValuePair<string, string>[count];
        var next = 0;
        var reader = new PropertyReader(properties, PropertySets.Publish);
        while (reader.TryRead(out var property))
        {
            if (property.Id == PropertyId.UserProperty)
                found[next++] = new(Encoding.UTF8.GetString(property.Name), Encoding.UTF8.GetString(property.Value));
        }

        return ImmutableCollectionsMarshal.AsImmutableArray(found);
    }

    private static int Count(ReadOnlySpan<byte> properties)
    {
        var count = 0;
        var reader = new PropertyReader(properties, PropertySets.Publish);
        while (reader.TryRead(out var property))
            count += property.Id == PropertyId.UserProperty ? 1 : 0;
        return count;
    }
}

/// <summary>A PUBLISH's bits beside its type (MQTT 5, section 3.3.1).</summary>
internal static class PublishFlags
{
    public const byte Retain = 0b0001;
    public const byte QualityOfServiceMask = 0b0110;
    public const int QualityOfServiceShift = 1;
    public const byte Duplicate = 0b1000;
}
