using System.ComponentModel.DataAnnotations;
using System.Globalization;
using System.Net.Security;
using System.Security.Cryptography.X509Certificates;
using Microsoft.Extensions.Options;

namespace BatchKit.RabbitMQ;

/// <summary>Settings of a RabbitMQ transport and receiver. Read once, when they are made; a value outside its range stops the start and names the setting.</summary>
public sealed class RabbitMqOptions : IValidatableObject
{
    /// <summary>The brokers of one cluster, each as <c>host</c> or <c>host:port</c>; <c>localhost</c> by default. They are tried in random order.</summary>
    [Required]
    public IList<string> Hosts { get; set; } = ["localhost"];

    /// <summary>The user name; <c>guest</c> by default, which the broker accepts from its own machine only.</summary>
    [Required]
    public string UserName { get; set; } = "guest";

    /// <summary>The password; <c>guest</c> by default. Never logged, nor part of an error.</summary>
    [Required]
    public string Password { get; set; } = "guest";

    /// <summary>The virtual host; <c>/</c> by default.</summary>
    [Required]
    public string VirtualHost { get; set; } = "/";

    /// <summary>Connects by TLS, on port 5671 where a host names none; false by default.</summary>
    public bool UseTls { get; set; }

    /// <summary>The name that the broker's certificate must bear; null by default, which means the host's name.</summary>
    public string? TlsServerName { get; set; }

    /// <summary>Decides whether a broker's certificate is trusted; null by default, which leaves that to the system.</summary>
    public RemoteCertificateValidationCallback? ValidateServerCertificate { get; set; }

    /// <summary>Certificates to show a broker that asks for one; none by default.</summary>
    public X509CertificateCollection? ClientCertificates { get; set; }

    /// <summary>
    /// What the names of the topology start with; <c>batchkit</c> by default: exchange <c>batchkit.direct</c>, queue <c>batchkit.node.1</c>. Buffers
    /// that share a broker and are not to hear each other need different ones.
    /// </summary>
    [Required]
    [StringLength(100, MinimumLength = 1)]
    public string Prefix { get; set; } = "batchkit";

    /// <summary>
    /// When set, all output goes to that node, whatever its handle: a gateway's players' input to the game. Null by default: a connection's
    /// output goes to the node that its handle names, a named handle's to all nodes.
    /// </summary>
    [Range(0, OutputHandle.MaxNode)]
    public int? DestinationNode { get; set; }

    /// <summary>
    /// True, the default: the queue outlives the broker and messages are written to its disk before they are confirmed, so that what was
    /// confirmed survives a crash of the broker. False: both live in memory, and a broker that ends loses what it held.
    /// </summary>
    /// <remarks>Sender and receiver each decide for their part: the sender for messages, the receiver for its queue. A queue can't change: delete it first.</remarks>
    public bool Durable { get; set; } = true;

    /// <summary>
    /// The broker deletes a node's queue that had no receiver for this long, with what is in it; 5 min by default. Output for that node is
    /// then refused and reported. Null keeps the queue for ever, and what is in it.
    /// </summary>
    [TimeSpanRange("00:00:01", "10.00:00:00")]
    public TimeSpan? QueueExpiry { get; set; } = TimeSpan.FromMinutes(5);

    /// <summary>
    /// Where the broker sends frames that the receiver rejected as malformed: an exchange of yours; null by default, which drops them after they were
    /// counted and logged.
    /// </summary>
    public string? DeadLetterExchange { get; set; }

    /// <summary>
    /// True, the default: declares the exchange, the queue and its bindings. False takes them as given, for users that may not configure; what is
    /// missing then shows as a failed send, or in the receiver's health.
    /// </summary>
    public bool DeclareTopology { get; set; } = true;

    /// <summary>
    /// How many frames the broker may send ahead of their acknowledgement; 16 by default. Enough to hide the way to the broker; more costs memory
    /// in the receiver (frames may have a megabyte) and helps only when frames are small and the network slow.
    /// </summary>
    [Range(1, ushort.MaxValue)]
    public int Prefetch { get; set; } = 16;

    /// <summary>
    /// The largest frame in bytes; 1 MiB by default. A buffering scope leaves as one frame up to this size, and as several beyond it. A single message that
    /// needs a larger frame is refused when it is written. Not above the broker's <c>max_message_size</c>: 16 MiB by default in RabbitMQ 4, 128 MiB before.
    /// </summary>
    [Range(4096, 128 * 1024 * 1024)]
    public int MaxFrameBytes { get; set; } = 1024 * 1024;

    /// <summary>The longest that connecting may take, login and channel included; 5 s by default. Then the attempt has failed.</summary>
    [TimeSpanRange("00:00:00.010", "00:05:00")]
    public TimeSpan ConnectTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>The longest that a publish may take, confirm included; 5 s by default. Then the send fails, and the next one takes a new connection.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan PublishTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// How long after connecting output for a node without a queue is kept and sent again, because after a broker's restart receivers come back at
    /// the same time; 15 s by default, which is more than <see cref="MaxReconnectDelay"/>. From then on such output is refused at once.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan UnroutableGrace { get; set; } = TimeSpan.FromSeconds(15);

    /// <summary>Both sides see a silent connection as dead after about twice this; 10 s by default.</summary>
    [TimeSpanRange("00:00:01", "01:00:00")]
    public TimeSpan Heartbeat { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>
    /// The receiver's pause before it connects again; 200 ms by default. It doubles with each failure, less a random part of up to a half.
    /// Senders need none: dispatch paces their sends.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "00:01:00")]
    public TimeSpan ReconnectDelay { get; set; } = TimeSpan.FromMilliseconds(200);

    /// <summary>The receiver's longest pause before it connects again; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan MaxReconnectDelay { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>
    /// The longest that a stopping receiver waits for the frame in hand; 5 s by default. Then the frame is abandoned, and the broker gives it to the
    /// queue's next receiver, whole.
    /// </summary>
    [TimeSpanRange("00:00:00", "01:00:00")]
    public TimeSpan StopTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (Hosts.Count == 0)
            yield return new ValidationResult($"{nameof(Hosts)} must name a broker.", [nameof(Hosts)]);

        // The entry itself is not repeated: somebody may have put a URI with a password there.
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

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class RabbitMqOptionsValidator : IValidateOptions<RabbitMqOptions>
{
    private static readonly RabbitMqOptionsValidator Shared = new();

    public static void ThrowIfInvalid(RabbitMqOptions options)
    {
        var result = Shared.Validate(Options.DefaultName, options);
        if (result.Failed)
            throw new OptionsValidationException(Options.DefaultName, typeof(RabbitMqOptions), result.Failures);
    }
}

/// <summary>One broker's host and port, as the options name them.</summary>
/// <param name="Host">A name or an address.</param>
/// <param name="Port">Zero for the protocol's own.</param>
internal readonly record struct RabbitMqEndpoint(string Host, int Port)
{
    private const int AmqpPort = 5672;
    private const int AmqpTlsPort = 5671;

    public static bool TryParse(string? text, out RabbitMqEndpoint endpoint)
    {
        endpoint = default;
        if (string.IsNullOrWhiteSpace(text))
            return false;
        var host = text;
        var port = 0;
        var colon = text.LastIndexOf(':');
        var isBareAddress = colon != text.IndexOf(':', StringComparison.Ordinal) && !text.Contains("]:", StringComparison.Ordinal);
        if (colon >= 0 && !isBareAddress)
        {
            host = text[..colon];
            if (!int.TryParse(text.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out port) || port is < 1 or > 65535)
                return false;
        }

        host = host.Trim('[', ']');
        if (Uri.CheckHostName(host) == UriHostNameType.Unknown)
            return false;
        endpoint = new RabbitMqEndpoint(host, port);
        return true;
    }

    public RabbitMqEndpoint WithPort(bool tls) => Port != 0 ? this : this with { Port = tls ? AmqpTlsPort : AmqpPort };

    public override string ToString() => $"{Host}:{Port}";
}
