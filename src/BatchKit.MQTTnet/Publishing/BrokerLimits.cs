using MQTTnet;
using MQTTnet.Formatter;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>What the broker of a connection accepts. MQTTnet checks none of it, and a broker ends the connection because of a message that it does not accept (MQTT 5, section 3.2.2.3).</summary>
internal sealed record BrokerLimits(uint MaxPacketBytes, MqttQualityOfServiceLevel MaxQualityOfService, bool IsRetainAvailable, int TopicAliasMaximum)
{
    /// <summary>Until the broker's own are known, and before MQTT 5, where a broker can't name any.</summary>
    public static BrokerLimits Unknown { get; } = new(uint.MaxValue, MqttQualityOfServiceLevel.ExactlyOnce, IsRetainAvailable: true, ushort.MaxValue);

    public static BrokerLimits Of(MqttClientConnectResult answer, MqttProtocolVersion? version) => version != MqttProtocolVersion.V500
        ? Unknown
        // MQTTnet returns zero for a packet size that the broker did not name.
        : new(answer.MaximumPacketSize is > 0 and var bytes ? bytes : uint.MaxValue, answer.MaximumQoS, answer.RetainAvailable, answer.TopicAliasMaximum);

    /// <summary>Why the broker would not accept a message, its size aside; null when it would.</summary>
    public string? FindFault(MqttQualityOfServiceLevel qualityOfService, bool isRetained, int topicAlias)
    {
        if (qualityOfService > MaxQualityOfService)
            return $"The message has QoS {(int)qualityOfService}; the broker accepts QoS {(int)MaxQualityOfService} at most.";
        if (isRetained && !IsRetainAvailable)
            return "The message is to be retained, which the broker does not support.";
        return topicAlias > TopicAliasMaximum ? $"The message has the topic alias {topicAlias}; the broker accepts {TopicAliasMaximum} at most." : null;
    }
}
