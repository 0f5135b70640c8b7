using System.Collections.Immutable;
using System.Runtime.InteropServices;
using System.Text;

namespace BatchKit.Mqtt.Packets;

/// <summary>Reads the user properties of a received PUBLISH (MQTT 5, section 3.3.2.3.7).</summary>
internal static class UserProperties
{
    /// <summary>Reads them from <see cref="ReceivedPublish.Properties"/>, in order.</summary>
    /// <exception cref="MqttProtocolException">The properties are malformed and were not validated before.</exception>
    public static ImmutableArray<KeyValuePair<string, string>> Read(ReadOnlySpan<byte> properties)
    {
        var count = Count(properties);
        if (count == 0)
            return [];
        var found = new KeyValuePair<string, string>[count];
        var next = 0;
        var reader = new PropertyReader(properties, PropertySets.Publish);
        while (reader.TryRead(out var property))
        {
            if (property.Id == PropertyId.UserProperty)
                found[next++] = new(Encoding.UTF8.GetString(property.Name), Encoding.UTF8.GetString(property.Value));
        }

        return ImmutableCollectionsMarshal.AsImmutableArray(found);
    }

    private static int Count(ReadOnlySpan<byte> properties)
    {
        var count = 0;
        var reader = new PropertyReader(properties, PropertySets.Publish);
        while (reader.TryRead(out var property))
            count += property.Id == PropertyId.UserProperty ? 1 : 0;
        return count;
    }
}
