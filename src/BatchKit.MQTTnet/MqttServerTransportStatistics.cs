namespace BatchKit.MQTTnet;

/// <summary>What a <see cref="MqttServerTransport"/> has done so far.</summary>
/// <param name="InjectedMessages">Messages that the server took.</param>
/// <param name="DroppedMessages">Messages that the server had no room for in a subscriber's queue, once for each such subscriber; those of its other publishers included.</param>
/// <param name="SlowSubscribers">Connected subscribers that are not waited for now.</param>
public readonly record struct MqttServerTransportStatistics(long InjectedMessages, long DroppedMessages, int SlowSubscribers);
