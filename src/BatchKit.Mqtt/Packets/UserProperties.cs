using System.Collections.Immutable;

namespace BatchKit.Mqtt.Packets;

/// <summary>The user properties of a PUBLISH that was received (MQTT 5, section 3.3.2.3.7).</summary>
internal static class UserProperties
{
    /// <summary>Reads them from <see cref="ReceivedPublish.Properties"/>, in order.</summary>
    public static ImmutableArray<KeyValuePair<string, string>> Read(ReadOnlySpan<byte> properties) => throw new NotSupportedException();
}
