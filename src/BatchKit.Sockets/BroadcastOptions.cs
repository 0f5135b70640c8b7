using System.ComponentModel.DataAnnotations;
using System.Net;
using BatchKit.Transports;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.Options;

namespace BatchKit.Broadcast;

/// <summary>Settings of a broadcast transport and of all its connections. They are read once, when the transport is created. A value outside its range throws there and names the setting.</summary>
public sealed class BroadcastOptions : IValidatableObject
{
    private const int AddressShare = 50;
    private const int LeastPlacesPerAddress = 20;

    /// <summary>The most connections in total; 100,000 by default, at most 10,000,000. Further clients are turned away with <see cref="TurnAwayMessage"/>.</summary>
    [Range(1, 10_000_000)]
    public int MaxConnections { get; set; } = 100_000;

    /// <summary>
    /// The most connections from one IP address, or from one /64 network of IPv6; further clients are turned away. Null, the default, for a fiftieth of <see cref="MaxConnections"/>, but at least 20. Set it to
    /// <see cref="MaxConnections"/> for no such limit, for instance behind a proxy that does not forward the clients' addresses (see <see cref="TrustedProxies"/>).
    /// </summary>
    [Range(1, 10_000_000)]
    public int? MaxConnectionsPerAddress { get; set; }

    /// <summary>
    /// The most handlers that may still run after their connections have ended, because they ignore their token; 10,000 by default, at most 10,000,000. Further clients are turned away until some of them end. Such a
    /// handler has returned its place in <see cref="MaxConnections"/>, but not yet in <see cref="MaxConnectionsPerAddress"/>.
    /// </summary>
    [Range(1, 10_000_000)]
    public int MaxLingeringHandlers { get; set; } = 10_000;

    /// <summary>
    /// The most telnet clients whose output (MCCP2) or input (MCCP3) is compressed at the same time; 200 by default. Compression takes processor time for each client and write, and a client that compresses its input takes up to
    /// 50 KB; further clients are served uncompressed.
    /// </summary>
    [Range(0, 10_000_000)]
    public int MaxCompressedConnections { get; set; } = 200;

    /// <summary>
    /// The most memory that output waiting for one client may take; 1 MiB by default, from 4 KiB to 1 GiB. Each write that waits counts its array, whose size is a power of two unless only its exact size fits, and 144 bytes, before compression; the protocol's own bytes, such as pongs, count too.
    /// <see cref="SlowConsumer"/> decides what happens at the limit. A single message above half of the limit, less 168 bytes, is rejected at the write.
    /// </summary>
    [Range(4096, 1 << 30)]
    public int MaxQueuedBytes { get; set; } = 1024 * 1024;

    /// <summary>The most messages that may wait for one client; 100,000 by default, at most 10,000,000. <see cref="SlowConsumer"/> decides what happens at the limit.</summary>
    [Range(1, 10_000_000)]
    public int MaxQueuedMessages { get; set; } = 100_000;

    /// <summary>
    /// The system's buffer for what a client has not read yet (<c>SO_SNDBUF</c>; Linux takes twice as much), from 1 KiB to 1 GiB; null, the default, for the system's own, which grows to megabytes. Output in it can't be replaced or dropped: with
    /// <c>WriteLatest</c>, set it to what a slow client reads in the time that a value may be old. Fast clients far away need it to hold their round trip. WebSocket clients over HTTP/2 keep the system's.
    /// </summary>
    [Range(1024, 1 << 30)]
    public int? SendBufferBytes { get; set; }

    /// <summary>What happens when a client's queue is full; the client is disconnected by default.</summary>
    [EnumDataType(typeof(SlowConsumerPolicy), ErrorMessage = "{0} must be Disconnect, DropOldest or DropNewest.")]
    public SlowConsumerPolicy SlowConsumer { get; set; }

    /// <summary>How long output may wait while a client takes none of it; 30 s by default, from 10 ms to 1 h. The client is then disconnected, whatever the policy.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan SlowConsumerTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>The longest record that a client may send, in bytes; 16 KiB by default, from 16 bytes to 512 MiB. A longer record disconnects the client; only a longer telnet line is discarded instead (<see cref="RecordKind.TooLong"/>).</summary>
    [Range(16, PlayerText.MaxTextBytes)]
    public int MaxRecordBytes { get; set; } = 16 * 1024;

    /// <summary>
    /// How fast a telnet client, or a client of a WebSocket endpoint for text, may send; on by default, with limits that are generous for people. Null, in a section too, for no limit. Input beyond the limit is
    /// read later; until then it waits in the client's socket.
    /// </summary>
    [ValidateObjectMembers]
    [InnerOptions(typeof(InputLimits))]
    public InputLimits? TextInputLimits { get; set; } = new();

    /// <summary>How fast a TCP client, or a client of a WebSocket endpoint for binary messages (<c>WebSocketEndpointOptions.SendsBinary</c>), may send; null, the default, for no limit.</summary>
    [ValidateObjectMembers]
    [InnerOptions(typeof(InputLimits))]
    public InputLimits? BinaryInputLimits { get; set; }

    /// <summary>How long a client may send no complete record before it is disconnected, from 10 ms to 7 days; null, the default, for no limit.</summary>
    [TimeSpanRange("00:00:00.010", "7.00:00:00")]
    public TimeSpan? IdleTimeout { get; set; }

    /// <summary>
    /// How long a client may be silent before it gets a keep-alive, a telnet NOP or a WebSocket ping; 60 s by default, from 10 ms to 1 day; null for never. Plain TCP has no such message,
    /// and a telnet client that has sent no telnet command, such as <c>nc</c>, gets none. For all clients of a listener the system also probes at this interval, so that a vanished machine is detected.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan? KeepAliveInterval { get; set; } = TimeSpan.FromSeconds(60);

    /// <summary>
    /// The most bytes that a client may send before it is authenticated; null, the default, for no limit. A client is authenticated when its handler calls
    /// <see cref="ClientConnection.MarkAuthenticated"/>, when its WebSocket request had an authenticated user, or when it joins its first group. Otherwise it is disconnected at the limit.
    /// </summary>
    [Range(1, 1 << 30)]
    public int? MaxUnauthenticatedBytes { get; set; }

    /// <summary>
    /// How long a client may stay unauthenticated before it is disconnected. Null, the default: one minute when the handler asks for authentication (<see cref="IConnectionHandler.RequiresAuthentication"/>), and no
    /// limit otherwise.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan? AuthenticationTimeout { get; set; }

    /// <summary>How long a connection may take to be established (TLS, the PROXY header, the start of a WebSocket); 10 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan HandshakeTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long a client may take to read what is queued when its connection closes; 5 s by default. The rest is dropped and counted.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan CloseTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>How long all clients together may take at stop to read what is queued and the goodbye; 10 s by default. The rest is dropped and counted.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>The text that every client gets at stop, before it is closed; none by default.</summary>
    public string? GoodbyeMessage { get; set; }

    /// <summary>The text that a TCP or telnet client gets when a connection limit is reached; none by default. A WebSocket request gets status 503.</summary>
    public string? TurnAwayMessage { get; set; }

    /// <summary>
    /// Networks of proxies that are trusted to give the client's address, by the PROXY protocol or by X-Forwarded-For and X-Forwarded-Proto on WebSocket requests; none by default. Other
    /// connections to a listener that uses the PROXY protocol are closed, and the headers of other requests are ignored.
    /// </summary>
    [Required]
    public IList<IPNetwork> TrustedProxies { get; set; } = [];

    /// <summary>Called within a second when a client becomes slow or keeps up again (<see cref="ClientConnection.IsSlow"/>); null, the default, for no calls. It must not block; what it throws is counted, and the health check tells it.</summary>
    public Action<ClientConnection>? SlowClientChanged { get; set; }

    /// <summary>The most connections from one address.</summary>
    internal int PlacesPerAddress => MaxConnectionsPerAddress ?? Math.Min(MaxConnections, Math.Max(LeastPlacesPerAddress, MaxConnections / AddressShare));

    /// <summary>Reads the settings that a section has. Its trusted proxies replace earlier ones.</summary>
    internal static void Read(IConfiguration section, BroadcastOptions options)
    {
        section.Bind(new BroadcastSection(options));
        options.TrustedProxies = SectionReader.ReadList(section, nameof(TrustedProxies), ReadNetwork) ?? options.TrustedProxies;
        options.TextInputLimits = ReadLimits(section, nameof(TextInputLimits), options.TextInputLimits);
        options.BinaryInputLimits = ReadLimits(section, nameof(BinaryInputLimits), options.BinaryInputLimits);
    }

    /// <inheritdoc/>
    public IEnumerable<ValidationResult> Validate(ValidationContext validationContext)
    {
        if (MaxConnectionsPerAddress > MaxConnections)
        {
            yield return new ValidationResult(
                $"{nameof(MaxConnectionsPerAddress)} ({MaxConnectionsPerAddress}) must not be above {nameof(MaxConnections)} ({MaxConnections}).",
                [nameof(MaxConnectionsPerAddress)]);
        }
    }

    private static InputLimits? ReadLimits(IConfiguration section, string key, InputLimits? before)
    {
        if (SectionReader.FindInner(section, key) is not { } inner)
            return before;
        if (!inner.GetChildren().Any())
            return inner.Value is null ? null : before;
        var limits = before ?? new InputLimits();
        inner.Bind(limits);
        return limits;
    }

    private static IPNetwork ReadNetwork(IConfigurationSection section) => IPNetwork.TryParse(section.Value, out var network)
        ? network
        : throw new FormatException($"The value '{section.Value}' at '{section.Path}' is not a network such as '10.0.0.0/8'.");
}

/// <summary>The settings that a section can have, besides the trusted proxies and the limits of input. Binding is generated for these alone, because it can't be generated for networks.</summary>
internal sealed class BroadcastSection
{
    private readonly BroadcastOptions _options;

    public BroadcastSection() : this(new()) { }

    internal BroadcastSection(BroadcastOptions options) => _options = options;

    public int MaxConnections { get => _options.MaxConnections; set => _options.MaxConnections = value; }
    public int? MaxConnectionsPerAddress { get => _options.MaxConnectionsPerAddress; set => _options.MaxConnectionsPerAddress = value; }
    public int MaxLingeringHandlers { get => _options.MaxLingeringHandlers; set => _options.MaxLingeringHandlers = value; }
    public int MaxCompressedConnections { get => _options.MaxCompressedConnections; set => _options.MaxCompressedConnections = value; }
    public int MaxQueuedBytes { get => _options.MaxQueuedBytes; set => _options.MaxQueuedBytes = value; }
    public int MaxQueuedMessages { get => _options.MaxQueuedMessages; set => _options.MaxQueuedMessages = value; }
    public int? SendBufferBytes { get => _options.SendBufferBytes; set => _options.SendBufferBytes = value; }
    public SlowConsumerPolicy SlowConsumer { get => _options.SlowConsumer; set => _options.SlowConsumer = value; }
    public TimeSpan SlowConsumerTimeout { get => _options.SlowConsumerTimeout; set => _options.SlowConsumerTimeout = value; }
    public int MaxRecordBytes { get => _options.MaxRecordBytes; set => _options.MaxRecordBytes = value; }
    public TimeSpan? IdleTimeout { get => _options.IdleTimeout; set => _options.IdleTimeout = value; }
    public TimeSpan? KeepAliveInterval { get => _options.KeepAliveInterval; set => _options.KeepAliveInterval = value; }
    public int? MaxUnauthenticatedBytes { get => _options.MaxUnauthenticatedBytes; set => _options.MaxUnauthenticatedBytes = value; }
    public TimeSpan? AuthenticationTimeout { get => _options.AuthenticationTimeout; set => _options.AuthenticationTimeout = value; }
    public TimeSpan HandshakeTimeout { get => _options.HandshakeTimeout; set => _options.HandshakeTimeout = value; }
    public TimeSpan CloseTimeout { get => _options.CloseTimeout; set => _options.CloseTimeout = value; }
    public TimeSpan DrainTimeout { get => _options.DrainTimeout; set => _options.DrainTimeout = value; }
    public string? GoodbyeMessage { get => _options.GoodbyeMessage; set => _options.GoodbyeMessage = value; }
    public string? TurnAwayMessage { get => _options.TurnAwayMessage; set => _options.TurnAwayMessage = value; }
}

/// <summary>What happens when a client's queue is full.</summary>
/// <remarks>The protocol's own bytes, such as a pong or an answer of telnet, are never dropped: they are queued in place of messages that the policy drops.</remarks>
public enum SlowConsumerPolicy
{
    /// <summary>The client is disconnected at once, because it would miss output without knowing. The default.</summary>
    Disconnect = 0,

    /// <summary>The oldest output that is not being written is dropped and counted. For clients that only need the latest.</summary>
    DropOldest = 1,

    /// <summary>The new output is dropped and counted; queued output is kept.</summary>
    DropNewest = 2,
}

/// <summary>Checks the options by their attributes, in generated code that is safe to trim.</summary>
[OptionsValidator]
internal sealed partial class BroadcastOptionsValidator : IValidateOptions<BroadcastOptions>;
