using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Publishing;

/// <summary>Writes PUBLISH packets for one connection, within its broker's limits.</summary>
internal sealed class PublishEncoder(ConnackPacket limits, MqttVersion version, string target, MqttOptions options)
{
    private readonly long _maxPacketBytes = Math.Min(limits.MaxPacketBytes, options.MaxPacketBytes);
    private readonly TopicAliases _aliases = new(Math.Min(limits.TopicAliasMaximum, options.MaxTopicAliases));

    /// <summary>Why this broker does not take the message; a plain success when it may.</summary>
    /// <param name="fields">The message.</param>
    /// <param name="bytes">What its packet takes.</param>
    public MqttPublishResult Check(in PublishFields fields, out int bytes)
    {
        bytes = 0;
        if (fields.QualityOfService > limits.MaximumQualityOfService)
            return new MqttPublishResult(MqttReasonCode.QoSNotSupported, $"{target} takes QoS {(int)limits.MaximumQualityOfService} at most.");
        if (fields.Retain && !limits.IsRetainAvailable)
            return new MqttPublishResult(MqttReasonCode.RetainNotSupported, $"{target} keeps no retained messages.");
        if (PublishPacket.FindFault(fields, version) is { } fault)
            return new MqttPublishResult(MqttReasonCode.MalformedPacket, fault);
        var (alias, isKnown) = _aliases.Find(fields.Topic);
        var packetBytes = PublishPacket.Measure(fields, version, alias, isKnown);
        if (packetBytes > _maxPacketBytes)
        {
            var limit = limits.MaxPacketBytes < options.MaxPacketBytes ? $"{target} takes" : $"{nameof(MqttOptions.MaxPacketBytes)} allows";
            return new MqttPublishResult(
                MqttReasonCode.PacketTooLarge, $"A message for {MqttTopics.Show(fields.Topic)} needs a packet of {packetBytes} bytes, and {limit} {_maxPacketBytes} at most.");
        }

        bytes = (int)packetBytes;
        return default;
    }

    /// <summary>Writes a message that <see cref="Check"/> let pass.</summary>
    public void Write(Span<byte> room, in PublishFields fields, ushort packetId, bool isDuplicate)
    {
        var (alias, isKnown) = _aliases.Find(fields.Topic);
        PublishPacket.Write(room, fields, version, packetId, isDuplicate, alias, isKnown);
        if (alias > 0 && !isKnown)
            _aliases.Learn(fields.Topic, alias);
    }
}
