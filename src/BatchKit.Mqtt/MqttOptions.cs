using System.ComponentModel.DataAnnotations;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;

namespace BatchKit.Mqtt;

/// <summary>
/// Settings of an MQTT transport and receiver. They are read when the transport or receiver is created; later changes have no effect. A value outside its range makes the start fail; the error
/// names the setting.
/// </summary>
public sealed class MqttOptions : IValidatableObject
{
    /// <summary>
    /// The broker: <c>mqtt://host</c> (port 1883), <c>mqtts://host</c> (TLS, 8883), <c>ws://host/path</c> (80) or <c>wss://host/path</c> (443), each with an optional
    /// port; <c>mqtt://localhost</c> by default.
    /// </summary>
    /// <remarks>
    /// A user name and a password in it, as in <c>mqtts://user:password@host</c>, replace <see cref="UserName"/> and <see cref="Password"/>. Escape special characters in them as in any URI. They never
    /// appear in a log or an error.
    /// </remarks>
    [Required]
    public Uri Server { get; set; } = new("mqtt://localhost");

    /// <summary>The version of the protocol; 5 by default.</summary>
    [EnumDataType(typeof(MqttVersion), ErrorMessage = "{0} must be V311 or V5.")]
    public MqttVersion Version { get; set; } = MqttVersion.V5;

    /// <summary>
    /// The transport's client id. The receiver appends <c>-receiver</c> to it, and the lease of a node's number appends <c>-node-</c> and an id of the process. Null, the default, creates a random id at start. Set it if a session must outlive
    /// the process. Two connections to one broker must not share an id.
    /// </summary>
    [StringLength(1000, MinimumLength = 1)]
    public string? ClientId { get; set; }

    /// <summary>The user name; none by default.</summary>
    public string? UserName { get; set; }

    /// <summary>The password; none by default. It is never logged and never part of an error.</summary>
    public string? Password { get; set; }

    /// <summary>Returns the credentials for each attempt to connect, for example a token that expires; null by default. It replaces <see cref="UserName"/> and <see cref="Password"/>.</summary>
    /// <remarks>Its token is cancelled at <see cref="ConnectTimeout"/>. An exception fails the attempt; the error's message contains only the exception's type, because the exception may contain secrets.</remarks>
    public Func<CancellationToken, ValueTask<MqttCredentials>>? CredentialsProvider { get; set; }

    /// <summary>
    /// True lets the transport and the receiver of a buffer share one connection, with <see cref="ClientId"/> unchanged; false, the default: each has its own connection.
    /// </summary>
    /// <remarks>
    /// The receiver keeps reading while the next transport is busy, because that transport may wait for its own publishes. Messages that arrive in the meantime wait in memory. When they take more than four times
    /// <see cref="MaxPacketBytes"/>, with their properties and about 200 bytes for each, the receiver stops reading until they are delivered. Acknowledgements are not read then either, so publishing stops when the window is full. The broker keeps the session as
    /// it keeps a receiver's.
    /// </remarks>
    public bool SharesConnection { get; set; }

    /// <summary>Called when a connection opens, is lost, or opens again; null by default. The transport and the receiver each report their own connection, unless they share one.</summary>
    /// <remarks>Calls for one connection keep their order and do not overlap. They delay the next use of the connection, so return quickly. An exception from the callback stops nothing; the health check then reports degraded.</remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>
    /// True: a send without a connection fails at once, a lost connection fails all sends that have not ended, and the host does not start while the broker can't be reached. False, the default: sends wait for
    /// the next connection until their time limit, and the host starts without the broker.
    /// </summary>
    /// <remarks>
    /// The transport keeps connecting in the background. Without a host it starts to connect at its first send, and that send fails; <see cref="ConnectionChanged"/> reports when the transport is connected. A
    /// buffer retries a failed send until <see cref="OutputBufferOptions.DeliveryTimeout"/>, with this setting too.
    /// </remarks>
    public bool FailFast { get; set; }

    /// <summary>The name that the broker's certificate must have; null, the default, requires the host name of <see cref="Server"/>.</summary>
    public string? TlsServerName { get; set; }

    /// <summary>Decides whether the broker's certificate is trusted; null, the default, lets the operating system decide.</summary>
    public RemoteCertificateValidationCallback? ValidateServerCertificate { get; set; }

    /// <summary>The client certificates to offer to a broker that asks for one; none by default.</summary>
    public X509CertificateCollection? ClientCertificates { get; set; }

    /// <summary>
    /// True discards the session at the broker at the first connect of this process; false by default. Later connects always resume the session. Mosquitto 2.0.11
    /// does not save a session that was started clean, whatever its expiry: a restart of the broker then loses the messages that wait in the session.
    /// </summary>
    public bool CleanStart { get; set; }

    /// <summary>
    /// How long the broker keeps the receiver's session, and the messages that arrive for it, after a lost connection; 5 min by default, rounded up to whole seconds. Zero keeps nothing.
    /// In MQTT 3.1.1 every value except zero means without limit.
    /// </summary>
    [TimeSpanRange("00:00:00", "24855.00:00:00")]
    public TimeSpan SessionExpiry { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>Broker and client treat a silent connection as dead after about one and a half times this time; 15 s by default. The broker may impose another value.</summary>
    [TimeSpanRange("00:00:01", "18:12:15")]
    public TimeSpan KeepAlive { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>The message that the broker publishes when the transport's connection ends without a DISCONNECT; none by default.</summary>
    public MqttWill? Will { get; set; }

    /// <summary>The time limit of an attempt to connect, including the broker's answer; 5 s by default, divided among the addresses of the brokers. After that the attempt has failed.</summary>
    [TimeSpanRange("00:00:00.010", "00:05:00")]
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The pause before connecting again; 200 ms by default. It doubles with each failure; a random part of up to a half is subtracted.</summary>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The maximum pause before connecting again; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan MaxReconnectDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// On Linux, true makes the kernel acknowledge each read immediately (TCP_QUICKACK); true by default. Otherwise a broker that uses Nagle's algorithm, as Mosquitto does by
    /// default, waits up to 40 ms for the acknowledgement.
    /// </summary>
    public bool QuickAcknowledge { get; set; } = true;

    /// <summary>
    /// The largest packet in bytes, sent or received; 2 MiB by default. A larger message is refused. The broker's own limit applies if it is lower. A receiver does not get a larger message: with
    /// MQTT 5 the broker drops it (MQTT-3.1.2-24), with 3.1.1 the receiver acknowledges and drops it, and logs that.
    /// </summary>
    [Range(MinPacketBytes, 256 * 1024 * 1024)]
    public int MaxPacketBytes { get; set; } = 2 * 1024 * 1024;

    /// <summary>QoS 0 or 1 for messages that no rule matches; 1 by default.</summary>
    [EnumDataType(typeof(MqttQualityOfService), ErrorMessage = "{0} must be AtMostOnce or AtLeastOnce.")]
    public MqttQualityOfService QualityOfService { get; set; } = MqttQualityOfService.AtLeastOnce;

    /// <summary>QoS, retain and expiry by topic; the first rule whose filter matches applies. Empty by default.</summary>
    [Required]
    [ValidateEnumeratedItems]
    [InnerOptions(typeof(MqttTopicRule))]
    public IList<MqttTopicRule> TopicRules { get; set; } = [];

    /// <summary>True allows topics that begin with <c>$SYS</c>, which are reserved for the broker; false by default.</summary>
    public bool AllowSystemTopics { get; set; }

    /// <summary>
    /// True adds the W3C trace context of the span in which a message is published to the message, as the user properties <c>traceparent</c> and <c>tracestate</c>, if that span is recorded. False by
    /// default, because it adds 71 bytes to each message, and more with a trace state, and all subscribers see it. MQTT 5 only.
    /// </summary>
    /// <remarks>A message that already has a property <c>traceparent</c> keeps it. In envelope mode each frame carries the trace once, without this setting.</remarks>
    public bool PublishesTraceContext { get; set; }

    /// <summary>
    /// The maximum number of unacknowledged QoS 1 messages; 1000 by default. The broker's Receive Maximum applies if it is lower: 20 on Mosquitto, set
    /// by its <c>max_inflight_messages</c>.
    /// </summary>
    [Range(1, MaxPublishWindow)]
    public int PublishWindow { get; set; } = 1000;

    /// <summary>
    /// The maximum number of topics that a connection replaces by a number after their first use (MQTT 5, section 3.3.2.3.4). The broker's own limit applies if it
    /// is lower. Zero, the default, uses none.
    /// </summary>
    [Range(0, ushort.MaxValue)]
    public int MaxTopicAliases { get; set; }

    /// <summary>
    /// The time limit of <see cref="IMqttPublisher.PublishManyAsync"/>, including reconnects; 30 s by default. A buffer's sends have the limit
    /// <see cref="OutputBufferOptions.SendTimeout"/>.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>
    /// When set (envelope mode), a send's batches are published as frames, each one message to <c>prefix/node/N</c> or <c>prefix/all</c>. A BatchKit receiver with
    /// the same prefix drops duplicates, so each batch arrives exactly once; only envelope mode guarantees this. Null by default: a handle is a topic, and each
    /// message of a batch is an MQTT message on it.
    /// </summary>
    [StringLength(1000, MinimumLength = 1)]
    public string? EnvelopePrefix { get; set; }

    /// <summary>
    /// In envelope mode, the node that receives all output, whatever the handle. Null by default: output for a connection goes to the node in its handle, output for
    /// a named handle goes to all nodes.
    /// </summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>What the receiver subscribes to; empty by default. It must be empty in envelope mode, where the receiver subscribes to its node's frames.</summary>
    [Required]
    [ValidateEnumeratedItems]
    [InnerOptions(typeof(MqttSubscription))]
    public IList<MqttSubscription> Subscriptions { get; set; } = [];

    /// <summary>The maximum number of unacknowledged messages that the broker may send to the receiver (MQTT 5's Receive Maximum); 1000 by default.</summary>
    [Range(1, ushort.MaxValue)]
    public int ReceiveMaximum { get; set; } = 1000;

    /// <summary>How long a stopping transport or receiver waits for the broker and for messages that it is still delivering; 5 s by default.</summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    // No two messages in flight may have the same packet id. The window has one place fewer than the 65,535 packet ids.
    internal const int MaxPublishWindow = ushort.MaxValue - 1;

    // Enough for every CONNECT of this client and for one small message.
    internal const int MinPacketBytes = 1024;

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext) => MqttOptionsRules.FindBroken(this);

    /// <summary>Reads the settings that a section has. Topic rules and subscriptions in the section replace the earlier ones.</summary>
    internal static void Read(IConfiguration section, MqttOptions options)
    {
        // Not by the binder: its error repeats an invalid address, which may contain a password. The validator's error does not.
        if (section[nameof(Server)] is { } server)
            options.Server = Uri.TryCreate(server, UriKind.Absolute, out var address) ? address : new Uri(string.Empty, UriKind.Relative);
        options.TopicRules = SectionReader.ReadList(section, nameof(TopicRules), ReadRule) ?? options.TopicRules;
        options.Subscriptions = SectionReader.ReadList(section, nameof(Subscriptions), ReadSubscription) ?? options.Subscriptions;
        section.Bind(new MqttSection(options));
    }

    private static MqttTopicRule ReadRule(IConfigurationSection section)
    {
        if (!section.GetChildren().Any())
            throw new FormatException($"'{section.Path}' is not a rule. Write an object with the filter and what it sets.");
        var rule = new MqttTopicRule();
        section.Bind(rule);
        return rule;
    }

    private static MqttSubscription ReadSubscription(IConfigurationSection section)
    {
        var subscription = new MqttSubscription { Filter = section.Value ?? "" };
        section.Bind(subscription);
        return subscription;
    }

    /// <summary>Returns a copy that later changes of the settings, their lists and the objects in the lists do not affect.</summary>
    internal MqttOptions Copy()
    {
        var copy = (MqttOptions)MemberwiseClone();
        copy.ClientCertificates = ClientCertificates is null ? null : new X509CertificateCollection(ClientCertificates);
        if (Server.UserInfo is { Length: > 0 } userInfo)
        {
            var colon = userInfo.IndexOf(':', StringComparison.Ordinal);
            copy.UserName = Uri.UnescapeDataString(colon < 0 ? userInfo : userInfo[..colon]);
            copy.Password = colon < 0 ? Password : Uri.UnescapeDataString(userInfo[(colon + 1)..]);
            copy.Server = new Uri(Server.GetComponents(UriComponents.AbsoluteUri & ~UriComponents.UserInfo, UriFormat.UriEscaped));
        }

        copy.TopicRules =
        [
            .. TopicRules.Select(static rule => new MqttTopicRule { Filter = rule.Filter, QualityOfService = rule.QualityOfService, Retain = rule.Retain, Expiry = rule.Expiry }),
        ];
        copy.Subscriptions = [.. Subscriptions.Select(static subscription => subscription.Copy())];
        return copy;
    }
}

/// <summary>The settings that a section can have, besides the address and the lists. Binding is generated for these alone, because it can't be generated for certificates, callbacks and a will.</summary>
internal sealed class MqttSection
{
    private readonly MqttOptions _options;

    public MqttSection() : this(new()) { }

    internal MqttSection(MqttOptions options) => _options = options;

    public bool FailFast { get => _options.FailFast; set => _options.FailFast = value; }
    public bool SharesConnection { get => _options.SharesConnection; set => _options.SharesConnection = value; }
    public MqttVersion Version { get => _options.Version; set => _options.Version = value; }
    public string? ClientId { get => _options.ClientId; set => _options.ClientId = value; }
    public string? UserName { get => _options.UserName; set => _options.UserName = value; }
    public string? Password { get => _options.Password; set => _options.Password = value; }
    public string? TlsServerName { get => _options.TlsServerName; set => _options.TlsServerName = value; }
    public bool CleanStart { get => _options.CleanStart; set => _options.CleanStart = value; }
    public TimeSpan SessionExpiry { get => _options.SessionExpiry; set => _options.SessionExpiry = value; }
    public TimeSpan KeepAlive { get => _options.KeepAlive; set => _options.KeepAlive = value; }
    public TimeSpan ConnectTimeout { get => _options.ConnectTimeout; set => _options.ConnectTimeout = value; }
    public TimeSpan ReconnectDelay { get => _options.ReconnectDelay; set => _options.ReconnectDelay = value; }
    public TimeSpan MaxReconnectDelay { get => _options.MaxReconnectDelay; set => _options.MaxReconnectDelay = value; }
    public bool QuickAcknowledge { get => _options.QuickAcknowledge; set => _options.QuickAcknowledge = value; }
    public int MaxPacketBytes { get => _options.MaxPacketBytes; set => _options.MaxPacketBytes = value; }
    public MqttQualityOfService QualityOfService { get => _options.QualityOfService; set => _options.QualityOfService = value; }
    public bool AllowSystemTopics { get => _options.AllowSystemTopics; set => _options.AllowSystemTopics = value; }
    public bool PublishesTraceContext { get => _options.PublishesTraceContext; set => _options.PublishesTraceContext = value; }
    public int PublishWindow { get => _options.PublishWindow; set => _options.PublishWindow = value; }
    public int MaxTopicAliases { get => _options.MaxTopicAliases; set => _options.MaxTopicAliases = value; }
    public TimeSpan PublishTimeout { get => _options.PublishTimeout; set => _options.PublishTimeout = value; }
    public string? EnvelopePrefix { get => _options.EnvelopePrefix; set => _options.EnvelopePrefix = value; }
    public int? DestinationNode { get => _options.DestinationNode; set => _options.DestinationNode = value; }
    public int ReceiveMaximum { get => _options.ReceiveMaximum; set => _options.ReceiveMaximum = value; }
    public TimeSpan StopTimeout { get => _options.StopTimeout; set => _options.StopTimeout = value; }
}

/// <summary>How messages are published to the topics that a filter matches. A message's own settings take precedence.</summary>
public sealed class MqttTopicRule
{
    /// <summary>
    /// The topic filter, with <c>+</c> and <c>#</c> as in a subscription (MQTT 5, section 4.7); <c>#</c> by default, which matches every topic that does not begin
    /// with <c>$</c>.
    /// </summary>
    [Required]
    public string Filter { get; set; } = "#";

    /// <summary>QoS 0 or 1; null, the default, uses <see cref="MqttOptions.QualityOfService"/>.</summary>
    [EnumDataType(typeof(MqttQualityOfService), ErrorMessage = "{0} must be AtMostOnce or AtLeastOnce.")]
    public MqttQualityOfService? QualityOfService { get; set; }

    /// <summary>Whether the broker keeps the last message for later subscribers; false by default.</summary>
    public bool Retain { get; set; }

    /// <summary>The time after which the broker may drop a message that waits for a subscriber, in whole seconds; null, the default, means never. MQTT 5 only.</summary>
    [TimeSpanRange("00:00:01", "24855.00:00:00")]
    public TimeSpan? Expiry { get; set; }
}

/// <summary>What the broker publishes when the transport's connection ends without a DISCONNECT (MQTT 5, section 3.1.2.5).</summary>
/// <param name="Message">The message. Its memory must stay unchanged as long as the transport exists.</param>
/// <param name="Delay">
/// How long the broker waits before it publishes the message, in whole seconds; zero by default. It publishes nothing if the client reconnects before that. MQTT 5 only.
/// </param>
public sealed record MqttWill(MqttMessage Message, TimeSpan Delay = default);

/// <summary>The user name and password of a connection. They are never logged and never part of an error.</summary>
/// <param name="UserName">The user name; null sends none.</param>
/// <param name="Password">The password or token, in UTF-8; empty sends none.</param>
public sealed record MqttCredentials(string? UserName, ReadOnlyMemory<byte> Password)
{
    /// <summary>The name of the type only, so that no secret is shown.</summary>
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
