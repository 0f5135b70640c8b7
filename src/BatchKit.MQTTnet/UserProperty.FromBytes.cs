using System.Text;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet;

/// <summary>Creates a user property, whose value is UTF-8 since MQTTnet 5.1.</summary>
internal static class UserProperty
{
    public static MqttUserProperty Create(string name, string value) => new(name, new ReadOnlyMemory<byte>(Encoding.UTF8.GetBytes(value)));
}
