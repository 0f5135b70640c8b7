using System.ComponentModel.DataAnnotations;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;
using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Settings of a RabbitMQ transport and receiver. They are read once, when the transport or receiver is created. A value outside its range stops the start; the error names the setting.</summary>
public sealed class RabbitMqOptions : IValidatableObject
{
    /// <summary>
    /// Where and how to connect, as a URI, such as <c>amqp://user:password@broker-1,broker-2:5673/virtual-host</c>, or <c>amqps://</c> for TLS; null by default. It has one
    /// host or several, which are tried in random order, or is several such URIs that differ only in the host, parted by commas.
    /// </summary>
    /// <remarks>
    /// It replaces <see cref="Hosts"/> and <see cref="UseTls"/>, and what it names of <see cref="UserName"/>, <see cref="Password"/> and <see cref="VirtualHost"/>. Special characters in these are
    /// escaped as in any URI. It never appears in a log or an error.
    /// </remarks>
    public string? ConnectionString { get; set; }

    /// <summary>A connection of the application, to use instead of one of its own; null by default. BatchKit opens channels on it and closes those; it never closes the connection.</summary>
    /// <remarks>
    /// It replaces all settings of how to connect. While it is closed, sends fail and are retried, and the receiver waits: create it with the client's automatic recovery. Transport and receiver share it
    /// where they share their options. <c>services.AddOptions&lt;RabbitMqOptions&gt;(name).Configure&lt;IConnection&gt;(...)</c> takes one from the services.
    /// </remarks>
    public IConnection? Connection { get; set; }

    /// <summary>A factory of the application that opens the connections; null by default. BatchKit closes the connections that the factory opened for it.</summary>
    /// <remarks>It replaces <see cref="Hosts"/>, <see cref="UserName"/>, <see cref="Password"/>, <see cref="VirtualHost"/>, <see cref="Heartbeat"/> and all settings of TLS. Automatic recovery is not needed.</remarks>
    public IConnectionFactory? ConnectionFactory { get; set; }

    /// <summary>Is told when a connection is open, lost, or open again; null by default. The sender and the receiver have a connection each, and report apart.</summary>
    /// <remarks>Calls for one connection keep their order and do not overlap. They run on the client's threads: return soon. What the callback throws stops nothing and makes health degraded.</remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>
    /// True: without a connection a send fails at once, while the transport connects in the background, and the host does not start while the broker can't be reached. False, the default: a send waits until
    /// it is connected, at most <see cref="ConnectTimeout"/>, and the host starts without the broker.
    /// </summary>
    /// <remarks>A buffer retries a failed send until <see cref="OutputBufferOptions.DeliveryTimeout"/>, with this setting too.</remarks>
    public bool FailFast { get; set; }

    /// <summary>The brokers of one cluster, each as <c>host</c> or <c>host:port</c>; <c>localhost</c> by default. They are tried in random order.</summary>
    [Required]
    public IList<string> Hosts { get; set; } = ["localhost"];

    /// <summary>The user name; <c>guest</c> by default. A broker accepts <c>guest</c> only from its own machine.</summary>
    [Required]
    public string UserName { get; set; } = "guest";

    /// <summary>The password; <c>guest</c> by default. It never appears in a log or an error.</summary>
    [Required]
    public string Password { get; set; } = "guest";

    /// <summary>The virtual host; <c>/</c> by default.</summary>
    [Required]
    public string VirtualHost { get; set; } = "/";

    /// <summary>Connects with TLS, on port 5671 unless a host names another; false by default.</summary>
    public bool UseTls { get; set; }

    /// <summary>The name that the broker's certificate must have; null, the default, means the host's name.</summary>
    public string? TlsServerName { get; set; }

    /// <summary>Decides whether a broker's certificate is trusted; null, the default, leaves the decision to the system.</summary>
    public RemoteCertificateValidationCallback? ValidateServerCertificate { get; set; }

    /// <summary>Client certificates, for a broker that asks for one; none by default.</summary>
    public X509CertificateCollection? ClientCertificates { get; set; }

    /// <summary>
    /// The first part of the names of the exchange and the queues; <c>batchkit</c> by default: exchange <c>batchkit.direct</c>, queue <c>batchkit.node.1</c>.
    /// Buffers that share a broker, and must not receive each other's output, need different prefixes.
    /// </summary>
    [Required]
    [StringLength(100, MinimumLength = 1)]
    public string Prefix { get; set; } = "batchkit";

    /// <summary>
    /// When set, all output goes to this node, whatever its handle; a gateway sends its players' input to the game this way. Null by default: a connection's
    /// output goes to the node that its handle names, and a named handle's output goes to all nodes.
    /// </summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>
    /// True, the default: the queue survives a restart of the broker, and the broker writes messages to its disk before it confirms them, so confirmed messages survive a
    /// crash of the broker. False: the broker keeps both in memory and loses them when it ends.
    /// </summary>
    /// <remarks>The sender's setting decides for messages, the receiver's for its queue. A queue that exists can't be changed: delete it first.</remarks>
    public bool Durable { get; set; } = true;

    /// <summary>
    /// The type of the receiver's queue; <see cref="RabbitMqQueueType.Classic"/> by default, which is the fastest and lives on one broker of a cluster. A quorum queue lives on several, and goes on when a minority of
    /// them fails.
    /// </summary>
    /// <remarks>
    /// All processes with the same <see cref="Prefix"/> must agree: the lease of a node's number is a queue of this type too. A quorum queue needs <see cref="Durable"/>. A queue that exists can't be changed: delete it
    /// first, or choose another prefix. RabbitMQ 4 drops a frame from a quorum queue that it has delivered 20 times without an acknowledgement, unless a policy sets <c>delivery-limit</c> to -1.
    /// </remarks>
    public RabbitMqQueueType QueueType { get; set; }

    /// <summary>
    /// How long a node's queue may be without a receiver before the broker deletes it with its messages; 5 min by default. Output for that node is
    /// then refused and reported. Null keeps the queue and its messages for ever.
    /// </summary>
    [TimeSpanRange("00:00:01", "10.00:00:00")]
    public TimeSpan? QueueExpiry { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>
    /// The name of an exchange of yours, to which the broker sends frames that the receiver rejected as malformed. Null, the default, drops such frames; they are
    /// counted and logged either way.
    /// </summary>
    public string? DeadLetterExchange { get; set; }

    /// <summary>
    /// True, the default, declares the exchange, the queue and its bindings. False expects them to exist, for users without the right to declare them. A
    /// missing one then shows as a failed send, or in the receiver's health.
    /// </summary>
    /// <remarks>
    /// Give the queue the argument <c>x-single-active-consumer</c>. The receiver starts only when the queue has no other consumer, and consumes a classic queue without that
    /// argument exclusively. The broker does not enforce this on a quorum queue, so two receivers that start there at the same moment share the frames and lose some.
    /// </remarks>
    public bool DeclareTopology { get; set; } = true;

    /// <summary>
    /// True, the default: a group's output goes only to the nodes that have members of it, where the next hop knows its members (as <c>BatchKit.Broadcast</c> does, see <see cref="IGroupMembership"/>). A send
    /// has a frame for each group. False: it goes to all nodes, in one frame for all groups of a send.
    /// </summary>
    /// <remarks>
    /// Set it to false where most groups have members on most nodes. Senders and receivers may differ: nothing is lost. For <see cref="UnroutableGrace"/> after connecting, and where <see cref="DeclareTopology"/>
    /// is false or the broker refuses the bindings, output goes to all nodes as well.
    /// </remarks>
    public bool RouteGroupsByMembers { get; set; } = true;

    /// <summary>
    /// How many unacknowledged frames the broker may send ahead; 16 by default, which hides the round trip to a broker nearby. A larger value costs memory in the receiver,
    /// up to <see cref="MaxFrameBytes"/> a frame, and helps only when frames are small and the network is slow.
    /// </summary>
    [Range(1, ushort.MaxValue)]
    public int Prefetch { get; set; } = 16;

    /// <summary>
    /// The largest frame in bytes; 1 MiB by default. A buffering scope leaves as one frame up to this size, and as several beyond it. A single message that
    /// needs a larger frame is refused when it is written. Not above the broker's <c>max_message_size</c>: 16 MiB by default in RabbitMQ 4, 128 MiB before.
    /// </summary>
    [Range(4096, 128 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 1024 * 1024;

    /// <summary>How long an attempt to connect may take, login and channel included; 5 s by default. After that it has failed.</summary>
    [TimeSpanRange("00:00:00.010", "00:05:00")]
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>How long a publish may take, confirm included; 5 s by default. After that the send fails, and the next send opens a new connection.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long after connecting the transport retries output for a node that has no queue; 15 s by default, which is more than <see cref="MaxReconnectDelay"/>. After
    /// a restart of the broker, receivers reconnect at the same time as senders. Later, such output is refused at once.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan UnroutableGrace { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>The heartbeat interval; 10 s by default. Both sides close a connection that was silent for about twice as long.</summary>
    [TimeSpanRange("00:00:01", "01:00:00")]
    public TimeSpan Heartbeat { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// The receiver's pause before it connects again; 200 ms by default. It doubles with each failure, less a random part of up to a half.
    /// Senders have no such pause: they connect when the buffer sends.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The receiver's longest pause before it connects again; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan MaxReconnectDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long a stopping receiver waits for its current frame; 5 s by default. After that it abandons the frame, and the broker delivers the whole frame to the queue's
    /// next receiver.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How often the receiver checks that exchange, queue and bindings exist; 5 s by default. It declares again what someone deleted. What exists with other
    /// arguments, or is missing with <see cref="DeclareTopology"/> false, becomes its fault. Keep it below the senders' <see cref="UnroutableGrace"/>.
    /// </summary>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan TopologyCheckInterval { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>Reads the settings that a section has. Hosts of the section replace the ones before.</summary>
    internal static void Read(IConfiguration section, RabbitMqOptions options)
    {
        if (section.GetSection(nameof(Hosts)) is var hosts && hosts.Exists())
            options.Hosts = hosts.Value is { Length: > 0 } host ? [host] : [];
        section.Bind(new RabbitMqSection(options));
    }

    /// <summary>Copies the settings, so that later changes have no effect on whoever keeps the copy.</summary>
    internal RabbitMqOptions Copy()
    {
        var copy = (RabbitMqOptions)MemberwiseClone();
        copy.Hosts = [.. Hosts];
        copy.ClientCertificates = ClientCertificates is null ? null : new X509CertificateCollection(ClientCertificates);
        if (!RabbitMqAddress.TryParse(ConnectionString, out var address, out _))
            return copy;
        (copy.Hosts, copy.UseTls) = ([.. address.Hosts], address.UseTls);
        (copy.UserName, copy.Password, copy.VirtualHost) = (address.UserName ?? UserName, address.Password ?? Password, address.VirtualHost ?? VirtualHost);
        return copy;
    }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (ConnectionString is not null && !RabbitMqAddress.TryParse(ConnectionString, out _, out var fault))
            yield return new ValidationResult($"{nameof(ConnectionString)} {fault}.", [nameof(ConnectionString)]);
        if (new object?[] { ConnectionString, Connection, ConnectionFactory }.Count(static given => given is not null) > 1)
            yield return new ValidationResult($"{nameof(ConnectionString)}, {nameof(Connection)} and {nameof(ConnectionFactory)} exclude each other: set one of them.", [nameof(ConnectionString)]);

        if (QueueType == RabbitMqQueueType.Quorum && !Durable)
            yield return new ValidationResult($"{nameof(QueueType)} is {nameof(RabbitMqQueueType.Quorum)} and {nameof(Durable)} is false. A quorum queue is durable: set {nameof(Durable)} to true, or {nameof(QueueType)} to {nameof(RabbitMqQueueType.Classic)}.", [nameof(QueueType)]);

        if (Hosts is null)
            yield break;
        if (Hosts.Count == 0)
            yield return new ValidationResult($"{nameof(Hosts)} must name a broker.", [nameof(Hosts)]);

        // The text does not repeat the entry, which may be a URI with a password.
        for (var index = 0; index < Hosts.Count; index++)
        {
            if (!RabbitMqEndpoint.TryParse(Hosts[index], out _))
                yield return new ValidationResult($"{nameof(Hosts)}[{index}] must be a host name or address, with a port or without, as in 'broker:5672'.", [nameof(Hosts)]);
        }

        if (MaxReconnectDelay < ReconnectDelay)
        {
            yield return new ValidationResult(
                $"{nameof(MaxReconnectDelay)} ({MaxReconnectDelay}) must not be below {nameof(ReconnectDelay)} ({ReconnectDelay}).", [nameof(MaxReconnectDelay)]);
        }
    }
}

/// <summary>Where a node's queue lives in a cluster of brokers.</summary>
public enum RabbitMqQueueType
{
    /// <summary>On one broker. While that one is down, the node receives nothing, and output for it waits.</summary>
    Classic,

    /// <summary>On several brokers, of which a majority must run. A frame is confirmed when a majority has it.</summary>
    Quorum,
}

/// <summary>The settings that a section can have. Binding is generated for these alone, because it can't be generated for certificates and callbacks.</summary>
internal sealed class RabbitMqSection
{
    private readonly RabbitMqOptions _options;

    public RabbitMqSection() : this(new()) { }

    internal RabbitMqSection(RabbitMqOptions options) => _options = options;

    public IList<string> Hosts { get => _options.Hosts; set => _options.Hosts = value; }
    public string? ConnectionString { get => _options.ConnectionString; set => _options.ConnectionString = value; }
    public string UserName { get => _options.UserName; set => _options.UserName = value; }
    public string Password { get => _options.Password; set => _options.Password = value; }
    public string VirtualHost { get => _options.VirtualHost; set => _options.VirtualHost = value; }
    public bool UseTls { get => _options.UseTls; set => _options.UseTls = value; }
    public string? TlsServerName { get => _options.TlsServerName; set => _options.TlsServerName = value; }
    public string Prefix { get => _options.Prefix; set => _options.Prefix = value; }
    public int? DestinationNode { get => _options.DestinationNode; set => _options.DestinationNode = value; }
    public bool Durable { get => _options.Durable; set => _options.Durable = value; }
    public RabbitMqQueueType QueueType { get => _options.QueueType; set => _options.QueueType = value; }
    public TimeSpan? QueueExpiry { get => _options.QueueExpiry; set => _options.QueueExpiry = value; }
    public string? DeadLetterExchange { get => _options.DeadLetterExchange; set => _options.DeadLetterExchange = value; }
    public bool DeclareTopology { get => _options.DeclareTopology; set => _options.DeclareTopology = value; }
    public bool RouteGroupsByMembers { get => _options.RouteGroupsByMembers; set => _options.RouteGroupsByMembers = value; }
    public int Prefetch { get => _options.Prefetch; set => _options.Prefetch = value; }
    public int MaxFrameBytes { get => _options.MaxFrameBytes; set => _options.MaxFrameBytes = value; }
    public bool FailFast { get => _options.FailFast; set => _options.FailFast = value; }
    public TimeSpan ConnectTimeout { get => _options.ConnectTimeout; set => _options.ConnectTimeout = value; }
    public TimeSpan PublishTimeout { get => _options.PublishTimeout; set => _options.PublishTimeout = value; }
    public TimeSpan UnroutableGrace { get => _options.UnroutableGrace; set => _options.UnroutableGrace = value; }
    public TimeSpan Heartbeat { get => _options.Heartbeat; set => _options.Heartbeat = value; }
    public TimeSpan ReconnectDelay { get => _options.ReconnectDelay; set => _options.ReconnectDelay = value; }
    public TimeSpan MaxReconnectDelay { get => _options.MaxReconnectDelay; set => _options.MaxReconnectDelay = value; }
    public TimeSpan StopTimeout { get => _options.StopTimeout; set => _options.StopTimeout = value; }
    public TimeSpan TopologyCheckInterval { get => _options.TopologyCheckInterval; set => _options.TopologyCheckInterval = value; }
}

/// <summary>Checks the options against their attributes; the code is generated, so it is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class RabbitMqOptionsValidator : IValidateOptions<RabbitMqOptions>
{
    public static RabbitMqOptionsValidator Shared { get; } = new();

    public static void ThrowIfInvalid(RabbitMqOptions options) => OptionsRules.ThrowIfInvalid(Shared, options);
}
