namespace BatchKit.Mqtt.Packets;

/// <summary>Writes the properties that a PUBLISH and a will have in common (MQTT 5, sections 3.3.2.3 and 3.1.3.2).</summary>
internal static class MessageProperties
{
    // An identifier and a value; for texts, an identifier and the length prefixes.
    private const int NumberBytes = 1 + sizeof(uint);
    private const int TextBytes = 1 + sizeof(ushort);
    private const int PairBytes = 1 + (2 * sizeof(ushort));

    /// <summary>A human-readable description of what is wrong with the properties; null when they may be sent.</summary>
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
