using System.Globalization;
using System.Text;

namespace BatchKit.MQTTnet;

/// <summary>The rules of topic names (MQTT 5, sections 1.5.4 and 4.7), and how a topic is shown in an error.</summary>
internal static class TopicNames
{
    private const int MaxShownCharacters = 100;

    /// <summary>What is wrong with a handle as a topic, or null when it may be published to.</summary>
    public static string? FindFault(OutputHandle handle, bool allowSystemTopics)
    {
        if (handle.Name is not { } topic)
            return $"The handle {handle} is a connection, and no topic.";
        if (topic.AsSpan().ContainsAny('+', '#'))
            return $"The topic {Show(topic)} holds a wildcard (+ or #), which only a subscription may.";
        if (!allowSystemTopics && topic.StartsWith("$SYS", StringComparison.Ordinal) && (topic.Length == 4 || topic[4] == '/'))
            return $"The topic {Show(topic)} is the broker's own; allow it with AllowSystemTopics.";
        foreach (var rune in topic.EnumerateRunes())
        {
            if (Rune.IsControl(rune))
                return $"The topic {Show(topic)} holds a control character.";
            // What is not UTF-16 shows as U+FFFD here; the encoder would write that, and another topic would get the message.
            if (rune == Rune.ReplacementChar && !topic.Contains('\uFFFD', StringComparison.Ordinal))
                return $"The topic {Show(topic)} holds half a surrogate pair.";
        }

        return null;
    }

    // In quotes, cut short and with what is not printable written as codes, so that it can't forge a line of a log.
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
