using System.Globalization;
using System.Text;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt;

/// <summary>Checks topic names and filters (MQTT 5, sections 1.5.4 and 4.7), matches them, and formats topics for error messages.</summary>
internal static class MqttTopics
{
    /// <summary>How the filter of a shared subscription begins.</summary>
    public const string SharePrefix = "$share/";

    private const int MaxShownCharacters = 100;

    /// <summary>What is wrong with a topic name; null when it is valid for a publish.</summary>
    public static string? FindFaultInName(string topic, bool allowSystemTopics)
    {
        if (FindFaultInText(topic) is { } fault)
            return fault;
        if (topic.AsSpan().ContainsAny('+', '#'))
            return $"The topic {Show(topic)} holds a wildcard (+ or #), which is allowed in subscriptions only: use a topic without it.";
        return !allowSystemTopics && topic.StartsWith("$SYS", StringComparison.Ordinal)
            ? $"The topic {Show(topic)} is reserved for the broker; set {nameof(MqttOptions.AllowSystemTopics)} to publish to it."
            : null;
    }

    /// <summary>What is wrong with a topic filter; null when it is valid for a subscription.</summary>
    public static string? FindFaultInFilter(string filter)
    {
        if (FindFaultInText(filter) is { } fault)
            return fault;
        var inner = filter;
        if (filter.StartsWith(SharePrefix, StringComparison.Ordinal))
        {
            var end = filter.IndexOf('/', SharePrefix.Length);
            if (end <= SharePrefix.Length || end == filter.Length - 1 || filter.AsSpan(SharePrefix.Length, end - SharePrefix.Length).ContainsAny('+', '#'))
                return $"The shared subscription {Show(filter)} must have the form $share/group/filter, with no wildcard in the group.";
            inner = filter[(end + 1)..];
        }

        var levels = inner.Split('/');
        for (var index = 0; index < levels.Length; index++)
        {
            var isWildcard = levels[index] == "+" || (levels[index] == "#" && index == levels.Length - 1);
            if (!isWildcard && levels[index].AsSpan().ContainsAny('+', '#'))
                return $"In the topic filter {Show(filter)} a wildcard must fill a whole level, and # must be the last level.";
        }

        return null;
    }

    /// <summary>True when a filter matches a topic name (MQTT 5, section 4.7).</summary>
    public static bool Matches(ReadOnlySpan<char> filter, ReadOnlySpan<char> topic)
    {
        // A wildcard at the first level does not match a topic that begins with $ (section 4.7.2).
        if (topic.StartsWith("$") && filter is ['+' or '#', ..])
            return false;
        while (true)
        {
            if (filter is "#")
                return true;
            var (filterEnd, topicEnd) = (filter.IndexOf('/'), topic.IndexOf('/'));
            var filterLevel = filterEnd < 0 ? filter : filter[..filterEnd];
            var topicLevel = topicEnd < 0 ? topic : topic[..topicEnd];
            if (filterLevel is not "+" && !filterLevel.SequenceEqual(topicLevel))
                return false;
            if (topicEnd < 0)
                return filterEnd < 0 || filter[(filterEnd + 1)..] is "#";
            if (filterEnd < 0)
                return false;
            filter = filter[(filterEnd + 1)..];
            topic = topic[(topicEnd + 1)..];
        }
    }

    /// <summary>Quotes and shortens a topic and escapes unprintable characters, so that a topic can't forge a line of a log.</summary>
    public static string Show(string topic)
    {
        var shown = new StringBuilder("'");
        foreach (var rune in topic.AsSpan(0, Math.Min(topic.Length, MaxShownCharacters)).EnumerateRunes())
        {
            var isPlain = rune.Value is >= ' ' and < 0x7F and not '\'' and not '\\' || Rune.IsLetterOrDigit(rune);
            if (isPlain)
                shown.Append(rune.ToString());
            else
                shown.Append(CultureInfo.InvariantCulture, $"\\u{{{rune.Value:X}}}");
        }

        return shown.Append(topic.Length > MaxShownCharacters ? "…'" : "'").ToString();
    }

    private static string? FindFaultInText(string text)
    {
        if (text.Length == 0)
            return "A topic must not be empty.";
        return PacketText.FindFault(text) is { } fault ? $"The topic {Show(text)} {fault}." : null;
    }
}

/// <summary>The topics that frames are published to in envelope mode.</summary>
internal static class EnvelopeTopics
{
    public static string All(string prefix) => $"{prefix}/all";

    public static string Node(string prefix, int node) => string.Create(CultureInfo.InvariantCulture, $"{prefix}/node/{node}");

    /// <summary>The beginning of the topics of all claims on a node's number.</summary>
    public static string Leases(string prefix, int node) => string.Create(CultureInfo.InvariantCulture, $"{prefix}/lease/{node}/");

    public static string Of(string prefix, FrameDestination destination) => destination.IsAll ? All(prefix) : Node(prefix, destination.Node);
}
