using System.Text;
using BatchKit.Mqtt.Packets;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet;

/// <summary>Creates and checks a user property, whose value is a string before MQTTnet 5.1.</summary>
internal static class UserProperty
{
    public static MqttUserProperty Create(string name, string value) => new(name, value);

    public static string? FindFaultInValue(MqttUserProperty property) => PacketText.FindFault(property.Value);

    public static long BytesOfValue(MqttUserProperty property) => Encoding.UTF8.GetByteCount(property.Value);
}
