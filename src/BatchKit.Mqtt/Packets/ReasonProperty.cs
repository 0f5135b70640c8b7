using System.Text;

namespace BatchKit.Mqtt.Packets;

/// <summary>Reads properties of which only the reason string matters.</summary>
internal static class ReasonProperty
{
    /// <exception cref="MqttProtocolException">The properties are malformed.</exception>
    public static string? Read(ReadOnlySpan<byte> properties, ulong allowed)
    {
        var reason = default(string);
        var reader = new PropertyReader(properties, allowed);
        while (reader.TryRead(out var property))
        {
            if (property.Id == PropertyId.Reason)
                reason = Encoding.UTF8.GetString(property.Value);
        }

        return reason;
    }
}
