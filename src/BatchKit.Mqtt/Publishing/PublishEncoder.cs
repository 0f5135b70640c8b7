using BatchKit.Mqtt.Connections;
using BatchKit.Mqtt.Packets;

namespace BatchKit.Mqtt.Publishing;

/// <summary>Writes PUBLISH packets for one connection, within its broker's limits.</summary>
internal sealed class PublishEncoder(MqttConnection connection, MqttOptions options)
{
    private readonly ConnackPacket _limits = connection.Limits;
    private readonly long _maxPacketBytes = Math.Min(connection.Limits.MaxPacketBytes, options.MaxPacketBytes);
    private readonly TopicAliases _aliases = new(Math.Min(connection.Limits.TopicAliasMaximum, options.MaxTopicAliases));

    /// <summary>Why this broker does not take the message; a plain success when it may.</summary>
    /// <param name="fields">The message.</param>
    /// <param name="bytes">What its packet takes.</param>
    public MqttPublishResult Check(in PublishFields fields, out int bytes)
    {
        bytes = 0;
        if (fields.QualityOfService > _limits.MaximumQualityOfService)
            return new MqttPublishResult(MqttReasonCode.QoSNotSupported, $"{connection.Target} takes QoS {(int)_limits.MaximumQualityOfService} at most.");
        if (fields.Retain && !_limits.IsRetainAvailable)
            return new MqttPublishResult(MqttReasonCode.RetainNotSupported, $"{connection.Target} keeps no retained messages.");
        var (alias, isKnown) = _aliases.Find(fields.Topic);
        long packetBytes;
        try
        {
            packetBytes = PublishPacket.Measure(fields, connection.Version, alias, isKnown);
        }
        catch (MqttProtocolException exception)
        {
            return new MqttPublishResult(exception.ReasonCode, exception.Message);
        }

        if (packetBytes > _maxPacketBytes)
        {
            var limit = _limits.MaxPacketBytes < options.MaxPacketBytes ? $"{connection.Target} takes" : $"{nameof(MqttOptions.MaxPacketBytes)} allows";
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
        PublishPacket.Write(room, fields, connection.Version, packetId, isDuplicate, alias, isKnown);
        if (alias > 0 && !isKnown)
            _aliases.Learn(fields.Topic, alias);
    }
}
