using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Publishing;

/// <summary>Writes the PUBLISH packets of one connection, within the broker's limits.</summary>
internal sealed class PublishEncoder(ConnackPacket limits, MqttVersion version, string target, MqttOptions options)
{
    private readonly long _maxPacketBytes = Math.Min(limits.MaxPacketBytes, options.MaxPacketBytes);
    private readonly TopicAliases _aliases = new(Math.Min(limits.TopicAliasMaximum, options.MaxTopicAliases));

    /// <summary>True when the broker has the session of the connection before. Without it a message sent again is a new one to the broker, and must not have the DUP flag (MQTT 5, sections 3.2.2.1.1 and 3.3.1.1).</summary>
    public bool IsSessionResumed => limits.IsSessionPresent;

    /// <summary>The reason why this broker would not accept the message; a plain success when it may be sent.</summary>
    /// <param name="fields">The message.</param>
    /// <param name="bytes">The size of its packet.</param>
    public MqttPublishResult Check(in PublishFields fields, out int bytes)
    {
        bytes = 0;
        if (fields.QualityOfService > limits.MaximumQualityOfService)
            return new MqttPublishResult(MqttReasonCode.QoSNotSupported, $"{target} accepts QoS {(int)limits.MaximumQualityOfService} at most.");
        if (fields.Retain && !limits.IsRetainAvailable)
            return new MqttPublishResult(MqttReasonCode.RetainNotSupported, $"{target} does not support retained messages.");
        if (PublishPacket.FindFault(fields, version) is { } fault)
            return new MqttPublishResult(MqttReasonCode.MalformedPacket, fault);
        var (alias, isKnown) = FindAlias(fields);
        var packetBytes = PublishPacket.Measure(fields, version, alias, isKnown);
        if (packetBytes > _maxPacketBytes)
        {
            var limit = limits.MaxPacketBytes < options.MaxPacketBytes ? $"{target} accepts" : $"{nameof(MqttOptions.MaxPacketBytes)} allows";
            return new MqttPublishResult(
                MqttReasonCode.PacketTooLarge, $"A message for {MqttTopics.Show(fields.Topic)} needs a packet of {packetBytes} bytes; {limit} {_maxPacketBytes} at most.");
        }

        bytes = (int)packetBytes;
        return default;
    }

    /// <summary>Writes a message that passed <see cref="Check"/>.</summary>
    public void Write(Span<byte> memory, in PublishFields fields, ushort packetId, bool isDuplicate)
    {
        var (alias, isKnown) = FindAlias(fields);
        PublishPacket.Write(memory, fields, version, packetId, isDuplicate, alias, isKnown);
        if (alias > 0 && !isKnown)
            _aliases.Learn(fields.Topic, alias);
    }

    // A new alias makes the packet larger, and so does any in place of a topic that is shorter. A message that fits only without one goes without.
    private (ushort Alias, bool IsKnown) FindAlias(in PublishFields fields)
    {
        var (alias, isKnown) = _aliases.Find(fields.Topic);
        var mayBeLarger = alias > 0 && (!isKnown || fields.Topic.Length < PublishPacket.TopicAliasBytes);
        return mayBeLarger && PublishPacket.Measure(fields, version, alias, isKnown) > _maxPacketBytes ? default : (alias, isKnown);
    }
}

/// <summary>The topic aliases of one connection (MQTT 5, section 3.3.2.3.4). The first topics get one; it never changes, because packets in flight may use it.</summary>
internal sealed class TopicAliases(int maximum)
{
    private readonly Dictionary<string, ushort> _aliases = new(StringComparer.Ordinal);

    /// <summary>The topic's alias, zero for none, and whether the broker knows it.</summary>
    public (ushort Alias, bool IsKnown) Find(string topic)
    {
        if (maximum == 0)
            return default;
        if (_aliases.TryGetValue(topic, out var alias))
            return (alias, true);
        return _aliases.Count < maximum ? ((ushort)(_aliases.Count + 1), false) : default;
    }

    /// <summary>Records that a packet with the topic and its alias was written.</summary>
    public void Learn(string topic, ushort alias) => _aliases[topic] = alias;
}
