namespace BatchKit.Mqtt;

/// <summary>
/// A reason code of the broker (MQTT 5, section 2.4). Codes from 0x80 are failures. MQTT 3.1.1 has no reason codes for a publish: an acknowledged one is a
/// <see cref="Success"/>.
/// </summary>
public enum MqttReasonCode
{
    /// <summary>Success; also the code of a granted QoS 0 and of a normal disconnection.</summary>
    Success = 0x00,

    /// <summary>QoS 1 was granted.</summary>
    GrantedQoS1 = 0x01,

    /// <summary>QoS 2 was granted.</summary>
    GrantedQoS2 = 0x02,

    /// <summary>The client disconnects and asks the broker to publish its will.</summary>
    DisconnectWithWill = 0x04,

    /// <summary>The broker accepted the message, but no one subscribes to its topic. This is a success.</summary>
    NoMatchingSubscribers = 0x10,

    /// <summary>There was no such subscription.</summary>
    NoSubscriptionExisted = 0x11,

    /// <summary>The broker gives no reason.</summary>
    UnspecifiedError = 0x80,

    /// <summary>A packet could not be read.</summary>
    MalformedPacket = 0x81,

    /// <summary>A packet was not allowed at this point.</summary>
    ProtocolError = 0x82,

    /// <summary>The packet is valid, but this broker, or this package, does not accept it.</summary>
    ImplementationSpecificError = 0x83,

    /// <summary>The broker does not support this version of the protocol.</summary>
    UnsupportedProtocolVersion = 0x84,

    /// <summary>The client id is not allowed.</summary>
    ClientIdentifierNotValid = 0x85,

    /// <summary>The user name or the password is wrong.</summary>
    BadUserNameOrPassword = 0x86,

    /// <summary>The client is not authorized to do this.</summary>
    NotAuthorized = 0x87,

    /// <summary>The broker is not available.</summary>
    ServerUnavailable = 0x88,

    /// <summary>The broker is busy.</summary>
    ServerBusy = 0x89,

    /// <summary>The client is banned.</summary>
    Banned = 0x8A,

    /// <summary>The broker is stopping.</summary>
    ServerShuttingDown = 0x8B,

    /// <summary>The authentication method is not supported.</summary>
    BadAuthenticationMethod = 0x8C,

    /// <summary>The broker received nothing for one and a half times the keep-alive time.</summary>
    KeepAliveTimeout = 0x8D,

    /// <summary>Another connection with the same client id took over the session.</summary>
    SessionTakenOver = 0x8E,

    /// <summary>The topic filter is not allowed.</summary>
    TopicFilterInvalid = 0x8F,

    /// <summary>The topic name is not allowed.</summary>
    TopicNameInvalid = 0x90,

    /// <summary>The packet id is in use.</summary>
    PacketIdentifierInUse = 0x91,

    /// <summary>The packet id is not known.</summary>
    PacketIdentifierNotFound = 0x92,

    /// <summary>More unacknowledged messages were sent than Receive Maximum allows.</summary>
    ReceiveMaximumExceeded = 0x93,

    /// <summary>The topic alias is not allowed.</summary>
    TopicAliasInvalid = 0x94,

    /// <summary>The packet is larger than the receiver accepts.</summary>
    PacketTooLarge = 0x95,

    /// <summary>The client sends messages too fast.</summary>
    MessageRateTooHigh = 0x96,

    /// <summary>A limit was exceeded.</summary>
    QuotaExceeded = 0x97,

    /// <summary>An administrator closed the connection.</summary>
    AdministrativeAction = 0x98,

    /// <summary>The payload does not have the format that the message declares.</summary>
    PayloadFormatInvalid = 0x99,

    /// <summary>The broker does not support retained messages.</summary>
    RetainNotSupported = 0x9A,

    /// <summary>The broker, or this package, does not support this QoS.</summary>
    QoSNotSupported = 0x9B,

    /// <summary>The client should use another server for now.</summary>
    UseAnotherServer = 0x9C,

    /// <summary>The server has moved.</summary>
    ServerMoved = 0x9D,

    /// <summary>Shared subscriptions are not supported.</summary>
    SharedSubscriptionsNotSupported = 0x9E,

    /// <summary>The client connects too often.</summary>
    ConnectionRateExceeded = 0x9F,

    /// <summary>The connection was open for as long as the broker allows.</summary>
    MaximumConnectTime = 0xA0,

    /// <summary>Subscription identifiers are not supported.</summary>
    SubscriptionIdentifiersNotSupported = 0xA1,

    /// <summary>Wildcards in subscriptions are not supported.</summary>
    WildcardSubscriptionsNotSupported = 0xA2,
}

/// <summary>The broker could not be reached, or refused the connection. The message names the broker and the reason, and contains no secret.</summary>
/// <param name="message">A human-readable message.</param>
/// <param name="reasonCode">The broker's answer; null when it gave none.</param>
/// <param name="innerException">The cause; null when there is none.</param>
public sealed class MqttConnectException(string message, MqttReasonCode? reasonCode = null, Exception? innerException = null)
    : IOException(message, innerException)
{
    /// <summary>The broker's answer; null when it gave none.</summary>
    public MqttReasonCode? ReasonCode { get; } = reasonCode;

    /// <summary>True when another attempt fails too unless a setting is changed: wrong credentials, an untrusted certificate, an unsupported version.</summary>
    public bool IsRefusal { get; init; }
}
