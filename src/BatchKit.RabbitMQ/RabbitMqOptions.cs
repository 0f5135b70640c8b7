using System.ComponentModel.DataAnnotations;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;
using RabbitMQ.Client;

namespace BatchKit.RabbitMQ;

/// <summary>Settings of a RabbitMQ transport and receiver. They are read once, when the transport or receiver is created. A value outside its range makes the start fail; the error names the setting.</summary>
public sealed class RabbitMqOptions : IValidatableObject
{
    /// <summary>
    /// The brokers and the login as a URI, such as <c>amqp://user:password@broker-1,broker-2:5673/virtual-host</c>, or <c>amqps://</c> for TLS; null by default. Several hosts are
    /// tried in random order. Several URIs that differ only in their hosts may be given too, separated by commas.
    /// </summary>
    /// <remarks>
    /// It replaces <see cref="Hosts"/> and <see cref="UseTls"/>. It also replaces <see cref="UserName"/>, <see cref="Password"/> and <see cref="VirtualHost"/> if it contains them. Escape special
    /// characters in these as in any URI. The string never appears in a log or an error.
    /// </remarks>
    public string? ConnectionString { get; set; }

    /// <summary>A connection of the application that BatchKit uses instead of opening its own; null by default. BatchKit opens and closes channels on it, and never closes the connection.</summary>
    /// <remarks>
    /// It replaces all settings of how to connect. While it is closed, sends fail and are retried, and the receiver waits. So create it with the client's automatic recovery. A transport and a receiver with
    /// the same options share it. <c>services.AddOptions&lt;RabbitMqOptions&gt;(name).Configure&lt;IConnection&gt;(...)</c> takes one from the services.
    /// </remarks>
    public IConnection? Connection { get; set; }

    /// <summary>A factory of the application that opens the connections; null by default. BatchKit closes the connections that the factory opens for it.</summary>
    /// <remarks>It replaces <see cref="Hosts"/>, <see cref="UserName"/>, <see cref="Password"/>, <see cref="VirtualHost"/>, <see cref="Heartbeat"/> and all TLS settings. The factory needs no automatic recovery.</remarks>
    public IConnectionFactory? ConnectionFactory { get; set; }

    /// <summary>Called when a connection opens, is lost, or opens again; null by default. The sender and the receiver each have a connection, and each reports its own.</summary>
    /// <remarks>Calls for one connection keep their order and do not overlap. They run on the client's threads, so return quickly. An exception from the callback stops nothing; the health check then reports degraded.</remarks>
    public Action<ConnectionChange>? ConnectionChanged { get; set; }

    /// <summary>
    /// True: without a connection, a send fails at once and the transport connects in the background; the host does not start while the broker can't be reached. False, the default: a send waits for the
    /// connection, at most <see cref="ConnectTimeout"/>, and the host starts without the broker.
    /// </summary>
    /// <remarks>A buffer retries a failed send until <see cref="OutputBufferOptions.DeliveryTimeout"/>, with this setting too.</remarks>
    public bool FailFast { get; set; }

    /// <summary>The brokers of one cluster, each as <c>host</c> or <c>host:port</c>; <c>localhost</c> by default. They are tried in random order.</summary>
    [Required]
    public IList<string> Hosts { get; set; } = ["localhost"];

    /// <summary>The user name; <c>guest</c> by default. By default a broker accepts <c>guest</c> only from its own machine.</summary>
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

    /// <summary>The name that the broker's certificate must have; null, the default, requires the host's name.</summary>
    public string? TlsServerName { get; set; }

    /// <summary>Decides whether a broker's certificate is trusted; null, the default, lets the operating system decide.</summary>
    public RemoteCertificateValidationCallback? ValidateServerCertificate { get; set; }

    /// <summary>The client certificates to offer to a broker that asks for one; none by default.</summary>
    public X509CertificateCollection? ClientCertificates { get; set; }

    /// <summary>
    /// The first part of the names of the exchange and the queues; <c>batchkit</c> by default: exchange <c>batchkit.direct</c>, queue <c>batchkit.node.1</c>.
    /// Buffers that share a broker but must not receive each other's output need different prefixes. It has 1 to 100 characters and at most 200 bytes in UTF-8, no line breaks,
    /// and does not begin with <c>amq.</c>, which RabbitMQ keeps for itself.
    /// </summary>
    [Required]
    [StringLength(100, MinimumLength = 1)]
    public string Prefix { get; set; } = "batchkit";

    /// <summary>
    /// The node that receives all output, whatever the handle; a gateway sends its players' input to the game this way. Null by default: output for a connection
    /// goes to the node in its handle, output for a named handle goes to all nodes.
    /// </summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>
    /// True, the default: the queue survives a restart of the broker, and the broker writes messages to its disk before it confirms them, so confirmed messages survive a
    /// crash of the broker. False: the broker keeps both in memory and loses them when it stops.
    /// </summary>
    /// <remarks>The sender's setting applies to messages, the receiver's to its queue. An existing queue can't be changed: delete it first.</remarks>
    public bool Durable { get; set; } = true;

    /// <summary>
    /// The type of the receiver's queue; <see cref="RabbitMqQueueType.Classic"/> by default, which is the fastest and is stored on one broker of a cluster. A quorum queue is stored on several, and still works when a minority of
    /// them has failed.
    /// </summary>
    /// <remarks>
    /// All processes with the same <see cref="Prefix"/> must use the same type, because the lease of a node's number is a queue of this type too. A quorum queue needs <see cref="Durable"/>. An existing queue can't be changed: delete it
    /// first, or choose another prefix. The queue has the argument
    /// <c>x-delivery-limit</c>, because RabbitMQ 4 otherwise drops a frame that it has delivered 20 times without an acknowledgement.
    /// </remarks>
    public RabbitMqQueueType QueueType { get; set; }

    /// <summary>
    /// How long a node's queue may be without a receiver before the broker deletes it with its messages; 5 min by default. Output for that node is
    /// then refused and reported. Null keeps the queue and its messages without limit.
    /// </summary>
    [TimeSpanRange("00:00:01", "10.00:00:00")]
    public TimeSpan? QueueExpiry { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>
    /// What a receiver does while another process has its node's number. False, the default: the start fails. True: the receiver waits, and tries again after <see cref="ReconnectDelay"/> to
    /// <see cref="MaxReconnectDelay"/>; meanwhile its fault names the other process. It takes over the number and the queue, with everything that waits there, when that process has ended.
    /// </summary>
    /// <remarks>The broker frees the number of a process that was killed at once, and that of one whose machine or network failed after two heartbeats. What the other process received and did not acknowledge is delivered again.</remarks>
    public bool WaitsForNode { get; set; }

    /// <summary>
    /// The name of your exchange to which the broker sends frames that the receiver rejects as malformed. Null, the default, drops such frames; they are
    /// counted and logged either way.
    /// </summary>
    public string? DeadLetterExchange { get; set; }

    /// <summary>
    /// True, the default, declares the exchange, the queue and its bindings. False expects them to exist, for users without the right to declare them. A
    /// missing one then shows as a failed send, or in the receiver's health.
    /// </summary>
    /// <remarks>
    /// Give the queue the argument <c>x-single-active-consumer</c>. The receiver starts only when the queue has no other consumer, and consumes a queue without that argument
    /// exclusively. The broker does not enforce this on a quorum queue: two receivers that start there at the same moment share the frames and lose some.
    /// </remarks>
    public bool DeclareTopology { get; set; } = true;

    /// <summary>
    /// True: a group's output goes only to the nodes that have members of it, where the next hop knows its members (as <c>BatchKit.Broadcast</c> does, see <see cref="IGroupMembership"/>). A send
    /// to several groups goes, in one frame, to the nodes with members of at least one of them. False, the default: it goes to all nodes.
    /// </summary>
    /// <remarks>
    /// Set it to true for several nodes where most groups have members on few of them. A process that writes to a group right after <i>another</i> process has let a connection join it may then miss the new
    /// member. Several groups share a frame up to 64 KiB; output for more than 256 of them in one frame goes to all nodes. Senders and receivers may differ: nothing is lost. For <see cref="UnroutableGrace"/> after connecting, and where <see cref="DeclareTopology"/>
    /// is false or the broker refuses the bindings, output goes to all nodes as well.
    /// </remarks>
    public bool RouteGroupsByMembers { get; set; }

    /// <summary>
    /// How many unacknowledged frames the broker may send ahead; 16 by default, which hides the round trip to a broker nearby. A larger value costs memory in the receiver,
    /// up to <see cref="MaxFrameBytes"/> a frame, and helps only when frames are small and the network is slow.
    /// </summary>
    [Range(1, ushort.MaxValue)]
    public int Prefetch { get; set; } = 16;

    /// <summary>
    /// The largest frame in bytes; 8 MiB by default, and at least <see cref="FrameWriter.OverheadBytes"/> above <see cref="OutputBufferOptions.MaxBatchBytes"/>. A buffering scope's output is sent as one frame up to this
    /// size, and as several frames above it. A single message that needs a larger frame is refused when it is written. Where the broker's
    /// <c>max_message_size</c> is lower (16 MiB by default in RabbitMQ 4, 128 MiB before), the transport learns that from the first refusal.
    /// </summary>
    [Range(4096, 128 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 8 * 1024 * 1024;

    /// <summary>The time limit of an attempt to connect, including the login and the channel; 5 s by default, divided among the addresses of the brokers. After that the attempt has failed.</summary>
    [TimeSpanRange("00:00:00.010", "00:05:00")]
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The time limit of a publish, including its confirm; 5 s by default. After that the send fails, and the next send opens a new connection.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long after connecting the transport retries output for a node that has no queue; 15 s by default. After this time it refuses such output at once. Receivers
    /// need the time to reconnect after a restart of the broker, so keep it above their <see cref="MaxReconnectDelay"/>.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan UnroutableGrace { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>The heartbeat interval; 10 s by default. The broker closes a connection that was silent for about twice as long, the client after up to four times; health tells earlier of a receiver's, after <see cref="TopologyCheckInterval"/> and <see cref="ConnectTimeout"/>.</summary>
    [TimeSpanRange("00:00:01", "01:00:00")]
    public TimeSpan Heartbeat { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// The receiver's pause before it connects again; 200 ms by default. It doubles with each failure; a random part of up to a half is subtracted.
    /// Senders have no such pause: they connect when the buffer sends.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The receiver's maximum pause before it connects again; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan MaxReconnectDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long a stopping receiver waits for its current frame; 5 s by default. After that it abandons the frame, and the broker delivers the whole frame to the queue's
    /// next receiver.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How often the receiver checks that the exchange, the queue and the bindings exist; 5 s by default. It declares deleted ones again. One that has other arguments, or that is missing
    /// while <see cref="DeclareTopology"/> is false, becomes its <see cref="RabbitMqReceiver.Fault"/>. When frames wait at two checks and none came in between although the receiver was receiving none, it
    /// connects again. Keep the interval below the senders' <see cref="UnroutableGrace"/>.
    /// </summary>
    [TimeSpanRange("00:00:00.100", "01:00:00")]
    public TimeSpan TopologyCheckInterval { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>Reads the settings that a section has. Hosts in the section replace the earlier ones.</summary>
    internal static void Read(IConfiguration section, RabbitMqOptions options)
    {
        options.Hosts = SectionReader.ReadList(section, nameof(Hosts), static host => host.Value ?? "") ?? options.Hosts;
        section.Bind(new RabbitMqSection(options));
    }

    /// <summary>Returns a copy that later changes do not affect.</summary>
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
        RabbitMqAddress? address = null;
        if (ConnectionString is not null && !RabbitMqAddress.TryParse(ConnectionString, out address, out var fault))
            yield return new ValidationResult($"{nameof(ConnectionString)} {fault}.", [nameof(ConnectionString)]);
        if (new object?[] { ConnectionString, Connection, ConnectionFactory }.Count(static given => given is not null) > 1)
            yield return new ValidationResult($"{nameof(ConnectionString)}, {nameof(Connection)} and {nameof(ConnectionFactory)} exclude each other: set one of them.", [nameof(ConnectionString)]);

        if (FindLimitFault() is { } limitFault)
            yield return new ValidationResult(limitFault, [nameof(MaxFrameBytes)]);
        if (Prefix is not null && RabbitMqNames.FindFaultInPrefix(Prefix) is { } prefixFault)
            yield return new ValidationResult($"{nameof(Prefix)} {prefixFault}", [nameof(Prefix)]);

        if (QueueType == RabbitMqQueueType.Quorum && !Durable)
            yield return new ValidationResult($"{nameof(QueueType)} is {nameof(RabbitMqQueueType.Quorum)} and {nameof(Durable)} is false. A quorum queue is durable: set {nameof(Durable)} to true, or {nameof(QueueType)} to {nameof(RabbitMqQueueType.Classic)}.", [nameof(QueueType)]);

        if (DeadLetterExchange is not null && RabbitMqNames.FindFault(DeadLetterExchange, RabbitMqNames.MaxBytes) is { } exchangeFault)
            yield return new ValidationResult($"{nameof(DeadLetterExchange)} {exchangeFault}", [nameof(DeadLetterExchange)]);
        foreach (var loginFault in RabbitMqNames.ValidateLogin(address?.UserName ?? UserName, address?.Password ?? Password, address?.VirtualHost ?? VirtualHost))
            yield return loginFault;
        if (Hosts is null)
            yield break;
        if (Hosts.Count == 0)
            yield return new ValidationResult($"{nameof(Hosts)} must name a broker.", [nameof(Hosts)]);
        foreach (var hostFault in RabbitMqEndpoint.Validate(Hosts, nameof(Hosts)))
            yield return hostFault;
        if (MaxReconnectDelay < ReconnectDelay)
        {
            yield return new ValidationResult(
                $"{nameof(MaxReconnectDelay)} ({MaxReconnectDelay}) must not be below {nameof(ReconnectDelay)} ({ReconnectDelay}).", [nameof(MaxReconnectDelay)]);
        }
    }

    private string? FindLimitFault()
    {
        var limit = Connection?.Endpoint.MaxInboundMessageBodySize ?? (ConnectionFactory as ConnectionFactory)?.MaxInboundMessageBodySize;
        return limit < MaxFrameBytes
            ? $"{nameof(MaxFrameBytes)} ({MaxFrameBytes}) is above MaxInboundMessageBodySize ({limit}) of the application's {(Connection is null ? "connection factory" : "connection")}, which would end with each larger frame that comes. Raise the one, or lower the other."
            : null;
    }
}

/// <summary>The brokers of a cluster that store a node's queue.</summary>
public enum RabbitMqQueueType
{
    /// <summary>One broker stores the queue. While it is down, the node receives nothing, and output for the node waits.</summary>
    Classic,

    /// <summary>Several brokers store the queue, and a majority of them must run. A frame is confirmed when a majority has stored it.</summary>
    Quorum,
}

/// <summary>The settings that a section can have, besides the hosts. Binding is generated for these alone, because it can't be generated for certificates and callbacks.</summary>
internal sealed class RabbitMqSection
{
    private readonly RabbitMqOptions _options;

    public RabbitMqSection() : this(new()) { }

    internal RabbitMqSection(RabbitMqOptions options) => _options = options;

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
    public bool WaitsForNode { get => _options.WaitsForNode; set => _options.WaitsForNode = value; }
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

/// <summary>Checks the options' attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class RabbitMqOptionsValidator : IValidateOptions<RabbitMqOptions>;
