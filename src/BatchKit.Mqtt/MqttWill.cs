namespace BatchKit.Mqtt;

/// <summary>What the broker publishes for the transport's connection when that ends without a goodbye (MQTT 5, section 3.1.2.5).</summary>
/// <param name="Message">The message. Its payload is kept as it is.</param>
/// <param name="Delay">How long after the end, in whole seconds; zero by default. A connection that is back by then keeps it from being published. MQTT 5 only.</param>
public sealed record MqttWill(MqttMessage Message, TimeSpan Delay = default);
