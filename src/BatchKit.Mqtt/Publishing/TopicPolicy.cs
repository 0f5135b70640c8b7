namespace BatchKit.Mqtt.Publishing;

/// <summary>Finds a topic's settings by the rules of the options. Without state: use it from any thread.</summary>
internal sealed class TopicPolicy(MqttOptions options)
{
    private readonly MqttTopicRule[] _rules = [.. options.TopicRules];

    public PublishSettings Find(string? topic)
    {
        if (MqttTopics.FindFaultInName(topic ?? "", options.AllowSystemTopics) is { } fault)
            return new PublishSettings(default, default, default, fault);
        foreach (var rule in _rules)
        {
            if (MqttTopics.Matches(rule.Filter, topic))
                return new PublishSettings(rule.QualityOfService ?? options.QualityOfService, rule.Retain, ToSeconds(rule.Expiry ?? TimeSpan.Zero), Fault: null);
        }

        return new PublishSettings(options.QualityOfService, Retain: false, Expiry: 0, Fault: null);
    }

    /// <summary>Whole seconds, rounded up, because zero would be never.</summary>
    public static uint ToSeconds(TimeSpan time) => (uint)Math.Min(Math.Ceiling(time.TotalSeconds), uint.MaxValue);
}

/// <summary>How a topic's messages are published, as far as they don't say so themselves; or why they can't be.</summary>
/// <param name="QualityOfService">QoS 0 or 1.</param>
/// <param name="Retain">Whether the broker keeps the last one.</param>
/// <param name="Expiry">In seconds; zero is never.</param>
/// <param name="Fault">What is wrong with the topic, for a person; null when nothing is.</param>
internal readonly record struct PublishSettings(MqttQualityOfService QualityOfService, bool Retain, uint Expiry, string? Fault);
