using MQTTnet.Packets;

namespace BatchKit.MQTTnet;

/// <summary>Makes a user property, which before MQTTnet 5.1 holds its value as text.</summary>
internal static class UserProperty
{
    public static MqttUserProperty Make(string name, string value) => new(name, value);
}
