namespace BatchKit.Mqtt.Publishing;

/// <summary>Finds the settings of a topic by the rules in the options. Stateless and thread-safe.</summary>
internal sealed class TopicPolicy(MqttOptions options)
{
    private readonly MqttTopicRule[] _rules = [.. options.TopicRules];

    /// <summary>True when messages carry the trace of their send.</summary>
    public bool PublishesTraceContext => options.PublishesTraceContext;

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

    /// <summary>Sets what a will leaves open, as for any other message on its topic.</summary>
    public MqttWill Resolve(MqttWill will)
    {
        var (message, settings) = (will.Message, Find(will.Message.Topic));
        return will with
        {
            Message = message with
            {
                QualityOfService = message.QualityOfService ?? settings.QualityOfService,
                Retain = message.Retain ?? settings.Retain,
                Expiry = message.Expiry ?? TimeSpan.FromSeconds(settings.Expiry),
            },
        };
    }

    /// <summary>Whole seconds, rounded up because zero would mean never.</summary>
    public static uint ToSeconds(TimeSpan time) => (uint)Math.Min(Math.Ceiling(time.TotalSeconds), uint.MaxValue);
}

/// <summary>How messages on a topic are published unless they have settings of their own, or why they can't be published.</summary>
/// <param name="QualityOfService">QoS 0 or 1.</param>
/// <param name="Retain">Whether the broker keeps the last message.</param>
/// <param name="Expiry">In seconds; zero means never.</param>
/// <param name="Fault">A human-readable description of what is wrong with the topic; null when it is valid.</param>
internal readonly record struct PublishSettings(MqttQualityOfService QualityOfService, bool Retain, uint Expiry, string? Fault);
