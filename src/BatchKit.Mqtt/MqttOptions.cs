using System.ComponentModel.DataAnnotations;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>Settings of an MQTT transport and receiver. Read once, when they are made; a value outside its range stops the start and names the setting.</summary>
public sealed class MqttOptions : IValidatableObject
{
    /// <summary>
    /// The broker: <c>mqtt://host</c> (port 1883), <c>mqtts://host</c> (TLS, 8883), <c>ws://host/path</c> (80) or <c>wss://host/path</c> (443), with another port where
    /// needed; <c>mqtt://localhost</c> by default. User name and password do not belong here.
    /// </summary>
    [Required]
    public Uri Server { get; set; } = new("mqtt://localhost");

    /// <summary>The version of the protocol; 5 by default.</summary>
    [EnumDataType(typeof(MqttVersion))]
    public MqttVersion Version { get; set; } = MqttVersion.V5;

    /// <summary>
    /// The transport's client id; the receiver's has <c>-receiver</c> behind it. Null by default, which draws one at the start. Set it where a session is to outlive the
    /// process; no two connections of one broker may share it.
    /// </summary>
    [StringLength(1000, MinimumLength = 1)]
    public string? ClientId { get; set; }

    /// <summary>The user name; none by default.</summary>
    public string? UserName { get; set; }

    /// <summary>The password; none by default. Never logged, nor part of an error.</summary>
    public string? Password { get; set; }

    /// <summary>Asked at each attempt to connect, in place of <see cref="UserName"/> and <see cref="Password"/>: for tokens that expire. Null by default.</summary>
    public Func<CancellationToken, ValueTask<MqttCredentials>>? CredentialsProvider { get; set; }

    /// <summary>The name that the broker's certificate must bear; null by default, which means the host's name.</summary>
    public string? TlsServerName { get; set; }

    /// <summary>Decides whether a broker's certificate is trusted; null by default, which leaves that to the system.</summary>
    public RemoteCertificateValidationCallback? ValidateServerCertificate { get; set; }

    /// <summary>Certificates to show a broker that asks for one; none by default.</summary>
    public X509CertificateCollection? ClientCertificates { get; set; }

    /// <summary>
    /// True forgets the broker's session at the first connect of this process; false by default. Later connects always take it up again. Mosquitto (2.0.11) saves no session that was
    /// started clean, whatever its expiry: a restart of the broker then loses what waited in it.
    /// </summary>
    public bool CleanStart { get; set; }

    /// <summary>
    /// How long the broker keeps the receiver's session, with what arrives for it, after a lost connection; 5 min by default. Zero keeps nothing. MQTT 3.1.1 knows only
    /// zero and for ever, which is what any other value means there.
    /// </summary>
    [TimeSpanRange("00:00:00", "24855.00:00:00")]
    public TimeSpan SessionExpiry { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>Both sides see a silent connection as dead after about one and a half times this; 15 s by default. A broker may impose its own.</summary>
    [TimeSpanRange("00:00:01", "18:12:15")]
    public TimeSpan KeepAlive { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>What the broker publishes when the transport's connection ends without a goodbye; nothing by default.</summary>
    public MqttWill? Will { get; set; }

    /// <summary>The longest that connecting may take, the broker's answer included; 5 s by default. Then the attempt has failed.</summary>
    [TimeSpanRange("00:00:00.010", "00:05:00")]
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The pause before connecting again; 200 ms by default. It doubles with each failure, less a random part of up to a half.</summary>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The longest pause before connecting again; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan MaxReconnectDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// True, the default: on Linux each read asks for the kernel's acknowledgement at once (TCP_QUICKACK). A broker that leaves Nagle's algorithm on, as Mosquitto does by
    /// default, otherwise waits up to 40 ms for it.
    /// </summary>
    public bool QuickAcknowledge { get; set; } = true;

    /// <summary>
    /// The largest packet in bytes, sent or received; 2 MiB by default. A larger message is refused; so is one that is larger than the broker's own limit.
    /// </summary>
    [Range(MinPacketBytes, 256 * 1024 * 1024)]
    public int MaxPacketBytes { get; set; } = 2 * 1024 * 1024;

    /// <summary>QoS 0 or 1 for messages that no rule speaks of; 1 by default.</summary>
    [EnumDataType(typeof(MqttQualityOfService))]
    public MqttQualityOfService QualityOfService { get; set; } = MqttQualityOfService.AtLeastOnce;

    /// <summary>QoS, retain and expiry by topic; the first whose filter matches holds. Empty by default.</summary>
    [Required]
    [ValidateEnumeratedItems]
    public IList<MqttTopicRule> TopicRules { get; set; } = [];

    /// <summary>True lets topics begin with <c>$SYS</c>, which are the broker's own; false by default.</summary>
    public bool AllowSystemTopics { get; set; }

    /// <summary>
    /// The most QoS 1 messages that may wait for their acknowledgement at once; 1000 by default. The broker's Receive Maximum holds where it is lower: 20 on Mosquitto, raised
    /// by its <c>max_inflight_messages</c>.
    /// </summary>
    [Range(1, MaxPublishWindow)]
    public int PublishWindow { get; set; } = 1000;

    /// <summary>The most topics that are named once a connection and then by number (MQTT 5, section 3.3.2.3.4); the broker's own limit holds where it is lower. Zero uses none.</summary>
    [Range(0, ushort.MaxValue)]
    public int MaxTopicAliases { get; set; }

    /// <summary>The longest that <see cref="IMqttPublisher.PublishManyAsync"/> may take, connecting again included; 30 s by default. A buffer's sends have its <see cref="OutputBufferOptions.SendTimeout"/>.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>
    /// When set, a send's batches travel as frames, each in one message for <c>prefix/node/N</c> or <c>prefix/all</c>, and a BatchKit receiver with the same prefix drops repeats:
    /// there, and only there, each batch arrives once. Null by default: a handle is a topic, and each message is a message on it.
    /// </summary>
    [StringLength(1000, MinimumLength = 1)]
    public string? EnvelopePrefix { get; set; }

    /// <summary>In envelope mode, the node that all output goes to, whatever its handle; null by default: a connection's to the node that its handle names, a named handle's to all.</summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>What the receiver subscribes to; empty by default. In envelope mode it subscribes to its node's frames by itself, and this must be empty.</summary>
    [Required]
    [ValidateEnumeratedItems]
    public IList<MqttSubscription> Subscriptions { get; set; } = [];

    /// <summary>The most messages that the broker may send the receiver ahead of their acknowledgement (MQTT 5's Receive Maximum); 1000 by default.</summary>
    [Range(1, ushort.MaxValue)]
    public int ReceiveMaximum { get; set; } = 1000;

    /// <summary>The longest that a stopping transport or receiver waits for the broker and for what it has in hand; 5 s by default.</summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    // A packet id must not meet itself: the ring of those under way has one place a packet id, of which zero is none.
    internal const int MaxPublishWindow = ushort.MaxValue - 1;

    // Any CONNECT of ours and one small message.
    internal const int MinPacketBytes = 1024;

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext) => MqttOptionsRules.FindBroken(this);
}

/// <summary>How messages for the topics that a filter matches are published, where they don't say so themselves.</summary>
public sealed class MqttTopicRule
{
    /// <summary>The topic filter, with <c>+</c> and <c>#</c> as in a subscription (MQTT 5, section 4.7); <c>#</c> by default, which matches every topic but those that begin with <c>$</c>.</summary>
    [Required]
    public string Filter { get; set; } = "#";

    /// <summary>QoS 0 or 1; null by default, which takes <see cref="MqttOptions.QualityOfService"/>.</summary>
    [EnumDataType(typeof(MqttQualityOfService))]
    public MqttQualityOfService? QualityOfService { get; set; }

    /// <summary>Whether the broker keeps the last message for later subscribers; false by default.</summary>
    public bool Retain { get; set; }

    /// <summary>After how long the broker may drop a message that waits for a subscriber, in whole seconds; null by default, which is never. MQTT 5 only.</summary>
    [TimeSpanRange("00:00:01", "24855.00:00:00")]
    public TimeSpan? Expiry { get; set; }
}

/// <summary>What a receiver subscribes to.</summary>
public sealed class MqttSubscription
{
    /// <summary>The topic filter; <c>$share/group/filter</c> shares its messages out among the group's receivers (MQTT 5, section 4.8.2).</summary>
    [Required]
    public string Filter { get; set; } = "";

    /// <summary>The most QoS to receive with, 0 or 1; 1 by default.</summary>
    [EnumDataType(typeof(MqttQualityOfService))]
    public MqttQualityOfService QualityOfService { get; set; } = MqttQualityOfService.AtLeastOnce;
}

/// <summary>What the broker publishes for the transport's connection when that ends without a goodbye (MQTT 5, section 3.1.2.5).</summary>
/// <param name="Message">The message. Its payload is kept as it is.</param>
/// <param name="Delay">How long after the end, in whole seconds; zero by default. A connection that is back by then keeps it from being published. MQTT 5 only.</param>
public sealed record MqttWill(MqttMessage Message, TimeSpan Delay = default);

/// <summary>Who connects. Never logged, nor part of an error.</summary>
/// <param name="UserName">The user name; null sends none.</param>
/// <param name="Password">The password or token, in UTF-8; empty sends none.</param>
public sealed record MqttCredentials(string? UserName, ReadOnlyMemory<byte> Password)
{
    /// <summary>Without the secret.</summary>
    public override string ToString() => nameof(MqttCredentials);
}

/// <summary>The version of the protocol; the value is the level that CONNECT carries (MQTT 5, section 3.1.2.2).</summary>
public enum MqttVersion
{
    /// <summary>MQTT 3.1.1: no properties, no reason codes for a publish, no Receive Maximum.</summary>
    V311 = 4,

    /// <summary>MQTT 5.</summary>
    V5 = 5,
}
