namespace BatchKit.Mqtt.Packets;

/// <summary>Which properties a packet from a broker may have (MQTT 5, table 2-4), a bit for each identifier.</summary>
internal static class PropertySets
{
    public const ulong Repeatable = 1UL << (int)PropertyId.UserProperty | 1UL << (int)PropertyId.SubscriptionIdentifier;

    /// <summary>PUBACK and SUBACK.</summary>
    public const ulong Acknowledgement = 1UL << (int)PropertyId.Reason | 1UL << (int)PropertyId.UserProperty;

    /// <summary>A broker must not send the session expiry (MQTT-3.14.2-2).</summary>
    public const ulong Disconnect = Acknowledgement | 1UL << (int)PropertyId.ServerReference;

    public const ulong Publish =
        1UL << (int)PropertyId.PayloadFormat | 1UL << (int)PropertyId.MessageExpiry | 1UL << (int)PropertyId.TopicAlias
        | 1UL << (int)PropertyId.ResponseTopic | 1UL << (int)PropertyId.CorrelationData | 1UL << (int)PropertyId.UserProperty
        | 1UL << (int)PropertyId.SubscriptionIdentifier | 1UL << (int)PropertyId.ContentType;

    public const ulong Connack =
        Disconnect | 1UL << (int)PropertyId.SessionExpiry | 1UL << (int)PropertyId.ReceiveMaximum | 1UL << (int)PropertyId.MaximumQualityOfService
        | 1UL << (int)PropertyId.RetainAvailable | 1UL << (int)PropertyId.MaximumPacketSize | 1UL << (int)PropertyId.AssignedClientId
        | 1UL << (int)PropertyId.TopicAliasMaximum | 1UL << (int)PropertyId.WildcardSubscriptionAvailable
        | 1UL << (int)PropertyId.SubscriptionIdentifierAvailable | 1UL << (int)PropertyId.SharedSubscriptionAvailable
        | 1UL << (int)PropertyId.ServerKeepAlive | 1UL << (int)PropertyId.ResponseInformation | 1UL << (int)PropertyId.AuthenticationMethod
        | 1UL << (int)PropertyId.AuthenticationData;
}
