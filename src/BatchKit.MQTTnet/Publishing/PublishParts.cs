using System.Text;
using BatchKit.Transports;
using MQTTnet;

namespace BatchKit.MQTTnet.Publishing;

/// <summary>What all sends of a transport share.</summary>
internal sealed record PublishParts(IMqttClient Client, ClientWatch Watch, PublishWindow Window, PropertyLists Lists, PublishSettings Settings, bool AllowSystemTopics)
{
    // Type, remaining length, packet id, length of the properties, expiry, and the codes and lengths of the rest but those of user properties.
    private const int PacketOverheadBytes = 32;
    private const int PropertyOverheadBytes = 5;

    /// <summary>What keeps a message from being sent, or null.</summary>
    public string? FindFault(string topic, BatchMessage message)
    {
        var limit = Watch.MaxPacketBytes;
        // Three bytes are the most that UTF-8 needs for a UTF-16 unit, so that only what may be too large is measured.
        if (limit == uint.MaxValue || Measure(topic, message, static text => text.Length * 3L) <= limit)
            return null;
        var bytes = Measure(topic, message, static text => Encoding.UTF8.GetByteCount(text));
        return bytes <= limit ? null : $"A message needs up to {bytes} bytes as a packet, and the broker takes at most {limit}.";
    }

    private static long Measure(string topic, BatchMessage message, Func<string, long> measure)
    {
        var bytes = PacketOverheadBytes + measure(topic) + message.Payload.Length;
        if (message.Header is not { } header)
            return bytes;
        if (header.ContentType is { } contentType)
            bytes += measure(contentType);
        if (header.Properties.IsDefaultOrEmpty)
            return bytes;
        foreach (var property in header.Properties)
            bytes += PropertyOverheadBytes + measure(property.Key) + measure(property.Value);
        return bytes;
    }
}
