namespace BatchKit.IntegrationTests.Mqtt.Conformance;

/// <summary>What brokers do otherwise than MQTT says. A scenario that is listed has to fail, so that the list stays true.</summary>
internal static class Deviations
{
    private const string Shared = nameof(SessionConformanceTests.A_shared_subscription_gives_each_message_to_one_of_its_clients);

    // A scheme where it is only one of the ways to connect that deviates.
    private static readonly (string Broker, string? Scheme, string Scenario, string Instead)[] All =
    [
        (ConformanceBrokers.MqttNet, null, Shared, "It has no shared subscriptions."),
        (ConformanceBrokers.RabbitMq, null, Shared, "It refuses the filter, or ends the connection."),
        (ConformanceBrokers.Aedes, null, Shared, "It has no shared subscriptions."),
        (ConformanceBrokers.RabbitMq, null, nameof(DeliveryConformanceTests.Messages_that_others_publish_with_quality_2_arrive_once_and_in_order), "It acknowledges them as messages of quality 1, and their publisher waits for more."),
        (ConformanceBrokers.RabbitMq, null, nameof(DeliveryConformanceTests.A_topic_may_have_any_character_and_empty_levels), "Topics become routing keys, in which a full stop is what a slash is here."),
        (ConformanceBrokers.RabbitMq, null, nameof(DeliveryConformanceTests.A_retained_message_comes_to_who_subscribes_later_and_says_so), "A filter with wildcards gets no retained messages."),
        (ConformanceBrokers.RabbitMq, "ws", nameof(SessionConformanceTests.A_will_is_not_published_after_an_orderly_end), "The end of a WebSocket publishes the will, also behind a DISCONNECT."),
    ];

    /// <summary>True for a broker that now and then sends new messages before those that a lost connection left (against MQTT 5.0, section 4.6): RabbitMQ gives these back to the queue while the next connection reads from it already, and aedes sends new ones while it still reads what it stored.</summary>
    public static bool MayReorderAfterLoss(string broker) => broker is ConformanceBrokers.RabbitMq or ConformanceBrokers.Aedes;

    public static string? Find(string broker, string scheme, string scenario) =>
        Array.Find(All, one => one.Broker == broker && one.Scenario == scenario && (one.Scheme ?? scheme) == scheme) is { Instead: { } instead } ? instead : null;
}
