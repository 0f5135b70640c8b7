using System.Globalization;
using System.Text;

namespace BatchKit.MQTTnet;

/// <summary>Checks topic names (MQTT 5, sections 1.5.4 and 4.7), and formats topics for error messages.</summary>
internal static class TopicNames
{
    private const int MaxShownCharacters = 100;

    /// <summary>What is wrong with a handle as a topic; null when it is valid for a publish.</summary>
    public static string? FindFault(OutputHandle handle, bool allowSystemTopics)
    {
        if (handle.Name is not { } topic)
            return $"The handle {handle} is a connection, not a topic.";
        if (topic.AsSpan().ContainsAny('+', '#'))
            return $"The topic {Show(topic)} holds a wildcard (+ or #), which is allowed in subscriptions only.";
        if (!allowSystemTopics && topic.StartsWith("$SYS", StringComparison.Ordinal) && (topic.Length == 4 || topic[4] == '/'))
            return $"The topic {Show(topic)} is reserved for the broker; set AllowSystemTopics to publish to it.";
        foreach (var rune in topic.EnumerateRunes())
        {
            if (Rune.IsControl(rune))
                return $"The topic {Show(topic)} holds a control character.";
            // Invalid UTF-16 appears as U+FFFD here. The encoder would write it so, and the message would go to another topic.
            if (rune == Rune.ReplacementChar && !topic.Contains('\uFFFD', StringComparison.Ordinal))
                return $"The topic {Show(topic)} holds half a surrogate pair.";
        }

        return null;
    }

    // Quotes and shortens a topic and escapes unprintable characters, so that a topic can't forge a line of a log.
    private static string Show(string topic)
    {
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
