namespace BatchKit.Mqtt.Publishing;

/// <summary>The topics that one connection names by number (MQTT 5, section 3.3.2.3.4): the first that come. Their number never changes, because others may be under way.</summary>
internal sealed class TopicAliases(int maximum)
{
    private readonly Dictionary<string, ushort> _aliases = new(StringComparer.Ordinal);

    /// <summary>The topic's number, zero for none, and whether the broker knows it.</summary>
    public (ushort Alias, bool IsKnown) Find(string topic)
    {
        if (maximum == 0)
            return default;
        if (_aliases.TryGetValue(topic, out var alias))
            return (alias, true);
        return _aliases.Count < maximum ? ((ushort)(_aliases.Count + 1), false) : default;
    }

    /// <summary>A packet with the topic and its number is on its way.</summary>
    public void Learn(string topic, ushort alias) => _aliases[topic] = alias;
}
