using MQTTnet.Packets;

namespace BatchKit.MQTTnet;

/// <summary>Creates a user property, whose value is text before MQTTnet 5.1.</summary>
internal static class UserProperty
{
    public static MqttUserProperty Create(string name, string value) => new(name, value);
}
