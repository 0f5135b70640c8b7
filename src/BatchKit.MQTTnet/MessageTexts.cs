using System.Globalization;
using System.Text;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;
using MQTTnet;

namespace BatchKit.MQTTnet;

/// <summary>Checks topic names and the texts of headers (MQTT 5, sections 1.5.4 and 4.7), and formats them for error messages.</summary>
/// <remarks>A peer may close the connection when it receives a text that this class refuses, as Mosquitto does. Each retry of the batch would then close the next connection.</remarks>
internal static class MessageTexts
{
    private const int MaxShownCharacters = 100;

    /// <summary>What is wrong with a handle as a topic; null when it is valid for a publish.</summary>
    public static string? FindFault(OutputHandle handle, bool allowSystemTopics)
    {
        return handle.Name is { } topic ? FindFaultInTopic(topic, allowSystemTopics) : $"The handle {handle} is a connection, not a topic: write to a named handle.";
    }

    /// <summary>What is wrong with an application's own message; null when it may be sent.</summary>
    public static string? FindFault(MqttApplicationMessage message, bool allowsAlias, bool allowSystemTopics)
    {
        var isAlias = string.IsNullOrEmpty(message.Topic);
        if (isAlias && !(allowsAlias && message.TopicAlias > 0))
            return "The message has no topic: set its Topic.";
        if (!isAlias && FindFaultInTopic(message.Topic, allowSystemTopics) is { } topicFault)
            return topicFault;
        if (message.ContentType is { } contentType && PacketText.FindFault(contentType) is { } contentTypeFault)
            return $"The content type {Show(contentType)} {contentTypeFault}.";
        if (message.ResponseTopic is { } replyTo && FindFaultInReplyTo(replyTo) is { } replyToFault)
            return $"The response topic {Show(replyTo)} {replyToFault}.";
        // MQTTnet would write these bytes behind a length of 16 bits, and the broker would end the connection.
        if (message.CorrelationData is { Length: > PacketText.MaxBytes } data)
            return $"The correlation data has {data.Length} bytes, more than {PacketText.MaxBytes}.";
        if (message.UserProperties is null)
            return null;
        foreach (var property in message.UserProperties)
        {
            if (PacketText.FindFault(property.Name) is { } nameFault)
                return $"The property's name {Show(property.Name)} {nameFault}.";
            if (UserProperty.FindFaultInValue(property) is { } valueFault)
                return $"The value of the property {Show(property.Name)} {valueFault}.";
        }

        return null;
    }

    public static void ThrowIfAnyIsNull(ReadOnlySpan<MqttApplicationMessage> messages)
    {
        for (var index = 0; index < messages.Length; index++)
        {
            if (messages[index] is null)
                throw new ArgumentException($"The message at index {index} is null: leave it out.", nameof(messages));
        }
    }

    private static string? FindFaultInTopic(string topic, bool allowSystemTopics)
    {
        if (topic.AsSpan().ContainsAny('+', '#'))
            return $"The topic {Show(topic)} holds a wildcard (+ or #), which is allowed in subscriptions only: use a topic without it.";
        if (!allowSystemTopics && topic.StartsWith("$SYS", StringComparison.Ordinal) && (topic.Length == 4 || topic[4] == '/'))
            return $"The topic {Show(topic)} is reserved for the broker; set AllowSystemTopics to publish to it.";
        return PacketText.FindFault(topic) is { } fault ? $"The topic {Show(topic)} {fault}." : null;
    }

    /// <summary>What is wrong with the content type, the response topic or a property of a message; null when they may be sent.</summary>
    public static string? FindFault(MessageHeader? header)
    {
        if (header is null)
            return null;
        if (header.ContentType is { } contentType && PacketText.FindFault(contentType) is { } contentTypeFault)
            return $"The content type {Show(contentType)} {contentTypeFault}.";
        if (header.ReplyTo is { } replyTo && FindFaultInReplyTo(replyTo) is { } replyToFault)
            return $"The response topic {Show(replyTo)} {replyToFault}.";
        if (header.Properties.IsDefaultOrEmpty)
            return null;
        foreach (var (name, value) in header.Properties)
        {
            if (PacketText.FindFault(name) is { } nameFault)
                return $"The property's name {Show(name)} {nameFault}.";
            if (PacketText.FindFault(value) is { } valueFault)
                return $"The value of the property {Show(name)} {valueFault}.";
        }

        return null;
    }

    private static string? FindFaultInReplyTo(string topic)
    {
        if (topic.Length == 0)
            return "is empty";
        return topic.AsSpan().ContainsAny('+', '#') ? "holds a wildcard (+ or #)" : PacketText.FindFault(topic);
    }

    // Quotes and shortens a topic and escapes unprintable characters, so that a topic can't forge a line of a log.
    private static string Show(string? topic)
    {
        topic ??= "";
        var shown = new StringBuilder("'");
        foreach (var rune in topic.AsSpan(0, Math.Min(topic.Length, MaxShownCharacters)).EnumerateRunes())
        {
            var isPlain = (rune.Value is >= ' ' and < 0x7F and not '\'' and not '\\') || Rune.IsLetterOrDigit(rune);
            if (isPlain)
                shown.Append(rune.ToString());
            else
                shown.Append(CultureInfo.InvariantCulture, $"\\u{{{rune.Value:X}}}");
        }

        return shown.Append(topic.Length > MaxShownCharacters ? "…'" : "'").ToString();
    }
}
