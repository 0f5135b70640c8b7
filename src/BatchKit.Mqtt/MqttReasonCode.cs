namespace BatchKit.Mqtt;

/// <summary>What a broker answered (MQTT 5, section 2.4); those from 0x80 are failures. MQTT 3.1.1 has none for a publish: there an acknowledged one is <see cref="Success"/>.</summary>
public enum MqttReasonCode
{
    /// <summary>Done; also the code of a granted QoS 0 and of a normal disconnection.</summary>
    Success = 0x00,

    /// <summary>QoS 1 was granted.</summary>
    GrantedQoS1 = 0x01,

    /// <summary>QoS 2 was granted.</summary>
    GrantedQoS2 = 0x02,

    /// <summary>The client leaves and wants its will published.</summary>
    DisconnectWithWill = 0x04,

    /// <summary>Taken, but nobody subscribes: a success.</summary>
    NoMatchingSubscribers = 0x10,

    /// <summary>Nothing to unsubscribe from.</summary>
    NoSubscriptionExisted = 0x11,

    /// <summary>Unspecified.</summary>
    UnspecifiedError = 0x80,

    /// <summary>A packet could not be read.</summary>
    MalformedPacket = 0x81,

    /// <summary>A packet was out of place.</summary>
    ProtocolError = 0x82,

    /// <summary>The broker does not take it, for a reason of its own.</summary>
    ImplementationSpecificError = 0x83,

    /// <summary>The broker does not speak this version.</summary>
    UnsupportedProtocolVersion = 0x84,

    /// <summary>The client id is not allowed.</summary>
    ClientIdentifierNotValid = 0x85,

    /// <summary>User name or password are wrong.</summary>
    BadUserNameOrPassword = 0x86,

    /// <summary>Not allowed.</summary>
    NotAuthorized = 0x87,

    /// <summary>The broker is not there.</summary>
    ServerUnavailable = 0x88,

    /// <summary>The broker is busy.</summary>
    ServerBusy = 0x89,

    /// <summary>The client is banned.</summary>
    Banned = 0x8A,

    /// <summary>The broker is stopping.</summary>
    ServerShuttingDown = 0x8B,

    /// <summary>The method of authentication is not supported.</summary>
    BadAuthenticationMethod = 0x8C,

    /// <summary>Nothing was heard for one and a half times the keep-alive.</summary>
    KeepAliveTimeout = 0x8D,

    /// <summary>Another connection took the client id.</summary>
    SessionTakenOver = 0x8E,

    /// <summary>The topic filter is not allowed.</summary>
    TopicFilterInvalid = 0x8F,

    /// <summary>The topic name is not allowed.</summary>
    TopicNameInvalid = 0x90,

    /// <summary>The packet id is in use.</summary>
    PacketIdentifierInUse = 0x91,

    /// <summary>The packet id is not known.</summary>
    PacketIdentifierNotFound = 0x92,

    /// <summary>More was sent than Receive Maximum allows.</summary>
    ReceiveMaximumExceeded = 0x93,

    /// <summary>The topic alias is not allowed.</summary>
    TopicAliasInvalid = 0x94,

    /// <summary>The packet is larger than the other side takes.</summary>
    PacketTooLarge = 0x95,

    /// <summary>Too much in too little time.</summary>
    MessageRateTooHigh = 0x96,

    /// <summary>A limit was exceeded.</summary>
    QuotaExceeded = 0x97,

    /// <summary>An administrator ended it.</summary>
    AdministrativeAction = 0x98,

    /// <summary>The payload does not have the format it says.</summary>
    PayloadFormatInvalid = 0x99,

    /// <summary>The broker keeps no retained messages.</summary>
    RetainNotSupported = 0x9A,

    /// <summary>The broker, or this package, does not have this QoS.</summary>
    QoSNotSupported = 0x9B,

    /// <summary>Use another server for now.</summary>
    UseAnotherServer = 0x9C,

    /// <summary>The server has moved.</summary>
    ServerMoved = 0x9D,

    /// <summary>Shared subscriptions are not supported.</summary>
    SharedSubscriptionsNotSupported = 0x9E,

    /// <summary>Too many connections in too little time.</summary>
    ConnectionRateExceeded = 0x9F,

    /// <summary>The longest connection time is over.</summary>
    MaximumConnectTime = 0xA0,

    /// <summary>Subscription identifiers are not supported.</summary>
    SubscriptionIdentifiersNotSupported = 0xA1,

    /// <summary>Wildcards in subscriptions are not supported.</summary>
    WildcardSubscriptionsNotSupported = 0xA2,
}

/// <summary>The broker could not be reached, or said no. The message names it and the reason, and holds no secret.</summary>
/// <param name="message">What happened, for a person.</param>
/// <param name="reasonCode">The broker's answer where it gave one.</param>
/// <param name="innerException">The cause, where there is one.</param>
public sealed class MqttConnectException(string message, MqttReasonCode? reasonCode = null, Exception? innerException = null)
    : IOException(message, innerException)
{
    /// <summary>The broker's answer; null when it gave none.</summary>
    public MqttReasonCode? ReasonCode { get; } = reasonCode;

    /// <summary>True when trying again won't help until somebody changes a setting: wrong credentials, a certificate that is not trusted, a version not spoken.</summary>
    public bool IsRefusal { get; init; }
}
