namespace BatchKit.Mqtt.Publishing;

/// <summary>How a topic's messages are published, as far as they don't say so themselves; or why they can't be.</summary>
/// <param name="QualityOfService">QoS 0 or 1.</param>
/// <param name="Retain">Whether the broker keeps the last one.</param>
/// <param name="Expiry">In seconds; zero is never.</param>
/// <param name="Fault">What is wrong with the topic, for a person; null when nothing is.</param>
internal readonly record struct PublishSettings(MqttQualityOfService QualityOfService, bool Retain, uint Expiry, string? Fault);
