namespace BatchKit.Mqtt.Packets;

/// <summary>A will in CONNECT (MQTT 5, sections 3.1.3.2 to 3.1.3.4).</summary>
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

    /// <summary>What is wrong with a will, for a person; null when it may be sent.</summary>
    public static string? FindFault(MqttWill will, MqttVersion version)
    {
        if (MqttTopics.FindFaultInName(will.Message.Topic, allowSystemTopics: true) is { } fault)
            return fault;
        return will.Message.Payload.Length > PacketText.MaxBytes ? $"Its payload has more than {PacketText.MaxBytes} bytes." : PublishPacket.FindFault(Of(will), version);
    }

    /// <summary>Its bytes in CONNECT's payload.</summary>
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
