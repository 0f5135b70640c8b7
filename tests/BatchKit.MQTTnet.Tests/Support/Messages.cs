using System.Text;
using MQTTnet;
using MQTTnet.Packets;
using MQTTnet.Protocol;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>Makes MQTTnet's messages as an application would.</summary>
internal static class Messages
{
    public static MqttApplicationMessage One(string topic, string text, int quality = 1, bool retain = false, List<MqttUserProperty>? properties = null) => new()
    {
        Topic = topic,
        PayloadSegment = Encoding.UTF8.GetBytes(text),
        QualityOfServiceLevel = (MqttQualityOfServiceLevel)quality,
        Retain = retain,
        UserProperties = properties!,
    };

    /// <summary>Every combination of QoS and retain, in turn.</summary>
    public static MqttApplicationMessage[] Mixed(int count) =>
        [.. Enumerable.Range(0, count).Select(number => One($"mixed/{number % 6}", $"{number}", number % 3, retain: number % 2 == 1))];
}
