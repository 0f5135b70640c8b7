namespace BatchKit.Mqtt.Packets;

/// <summary>The properties (MQTT 5, section 2.2.2.2).</summary>
internal enum PropertyId : byte
{
    PayloadFormat = 1,
    MessageExpiry = 2,
    ContentType = 3,
    ResponseTopic = 8,
    CorrelationData = 9,
    SubscriptionIdentifier = 11,
    SessionExpiry = 17,
    AssignedClientId = 18,
    ServerKeepAlive = 19,
    AuthenticationMethod = 21,
    AuthenticationData = 22,
    WillDelay = 24,
    ResponseInformation = 26,
    ServerReference = 28,
    Reason = 31,
    ReceiveMaximum = 33,
    TopicAliasMaximum = 34,
    TopicAlias = 35,
    MaximumQualityOfService = 36,
    RetainAvailable = 37,
    UserProperty = 38,
    MaximumPacketSize = 39,
    WildcardSubscriptionAvailable = 40,
    SubscriptionIdentifierAvailable = 41,
    SharedSubscriptionAvailable = 42,
}
