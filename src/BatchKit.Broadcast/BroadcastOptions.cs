using System.ComponentModel.DataAnnotations;
using System.Net;

namespace BatchKit.Broadcast;

/// <summary>Settings of a broadcast transport and of all connections that it serves. Read once, when it is made; a value outside its range stops the start and names the setting.</summary>
public sealed class BroadcastOptions : IValidatableObject
{
    /// <summary>The most connections in all; 100,000 by default. One more is turned away with <see cref="TurnAwayMessage"/>.</summary>
    [Range(1, 10_000_000)]
    public int MaxConnections { get; set; } = 100_000;

    /// <summary>The most connections from one IP address, an IPv6 address counted by its /64; null by default, which means no limit.</summary>
    [Range(1, 10_000_000)]
    public int? MaxConnectionsPerAddress { get; set; }

    /// <summary>
    /// The most bytes that may wait for one client, as they go over the wire before compression; 1 MiB by default. A single message above half of it is refused at the write. When it is reached, <see cref="SlowConsumer"/> says what happens.
    /// </summary>
    [Range(4096, 1 << 30)]
    public int MaxQueuedBytes { get; set; } = 1024 * 1024;

    /// <summary>The most messages that may wait for one client; 100,000 by default.</summary>
    [Range(1, 10_000_000)]
    public int MaxQueuedMessages { get; set; } = 100_000;

    /// <summary>What happens to output for a client whose queue is full; it is disconnected by default.</summary>
    [EnumDataType(typeof(SlowConsumerPolicy))]
    public SlowConsumerPolicy SlowConsumer { get; set; }

    /// <summary>A client for which output waits and that takes none for this long is disconnected, whatever the policy; 30 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "01:00:00")]
    public TimeSpan SlowConsumerTimeout { get; set; } = TimeSpan.FromSeconds(30);

    /// <summary>The longest record that a client may send, in bytes; 16 KiB by default.</summary>
    [Range(16, 1 << 30)]
    public int MaxRecordBytes { get; set; } = 16 * 1024;

    /// <summary>A client that sends no whole record for this long is disconnected; null by default, which means never.</summary>
    [TimeSpanRange("00:00:00.010", "7.00:00:00")]
    public TimeSpan? IdleTimeout { get; set; }

    /// <summary>
    /// How often a silent client gets a keep-alive, a telnet NOP or a WebSocket ping; 60 s by default, null for never. TCP clients get none of their own, but
    /// the system asks for those of a listener as often whether they are still there, so that a machine that vanished is found.
    /// </summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan? KeepAliveInterval { get; set; } = TimeSpan.FromSeconds(60);

    /// <summary>
    /// The most bytes that a client may send before it is authenticated; null by default, which means no limit. It is authenticated when its handler says so
    /// (<see cref="ClientConnection.MarkAuthenticated"/>), when its WebSocket request had an authenticated user, or when it joins its first group.
    /// </summary>
    [Range(1, 1 << 30)]
    public int? MaxUnauthenticatedBytes { get; set; }

    /// <summary>A client that is not authenticated this long after it connected is disconnected; null by default, which means never.</summary>
    [TimeSpanRange("00:00:00.010", "1.00:00:00")]
    public TimeSpan? AuthenticationTimeout { get; set; }

    /// <summary>The longest that a connection may take to establish: TLS, the PROXY protocol's line, a WebSocket's start; 10 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan HandshakeTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>How long a closing connection may take to read what is queued for it; 5 s by default.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan CloseTimeout { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>How long all connections together may take at stop to read what is queued and the goodbye; 10 s by default. What is left counts as dropped.</summary>
    [TimeSpanRange("00:00:00.010", "00:10:00")]
    public TimeSpan DrainTimeout { get; set; } = TimeSpan.FromSeconds(10);

    /// <summary>What every client is told at stop, before it is closed; nothing by default.</summary>
    public string? GoodbyeMessage { get; set; }

    /// <summary>What a TCP or telnet client is told when there are too many; nothing by default. A WebSocket's request gets status 503.</summary>
    public string? TurnAwayMessage { get; set; }

    /// <summary>
    /// Networks of proxies whose word on the client's address is taken: the PROXY protocol, and X-Forwarded-For on WebSocket requests; none by default. From any other
    /// address a PROXY line ends the connection and X-Forwarded-For is ignored.
    /// </summary>
    [Required]
    public IList<IPNetwork> TrustedProxies { get; set; } = [];

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
}
