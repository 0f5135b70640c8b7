using System.Text;
using MQTTnet.Packets;

namespace BatchKit.MQTTnet;

/// <summary>Makes a user property, which from MQTTnet 5.1 on holds its value as UTF-8.</summary>
internal static class UserProperty
{
    public static MqttUserProperty Make(string name, string value) => new(name, new ReadOnlyMemory<byte>(Encoding.UTF8.GetBytes(value)));
}
