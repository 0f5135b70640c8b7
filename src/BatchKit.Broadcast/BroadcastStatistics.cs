namespace BatchKit.Broadcast;

/// <summary>A transport's counters. A message to 100 clients is 100 deliveries; bytes are those on the wire, before compression and encryption.</summary>
/// <remarks>At every quiet point <see cref="AcceptedMessages"/> = sent + dropped (for each reason) + failed + pending, and the same for bytes.</remarks>
public sealed class BroadcastStatistics
{
    /// <summary>Deliveries that were begun: a message for one connection.</summary>
    public long AcceptedMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long AcceptedBytes { get; init; }

    /// <summary>Deliveries that the socket took whole.</summary>
    public long SentMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long SentBytes { get; init; }

    /// <summary>Dropped by <see cref="SlowConsumerPolicy.DropOldest"/>, to make room.</summary>
    public long DroppedOldestMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long DroppedOldestBytes { get; init; }

    /// <summary>Dropped by <see cref="SlowConsumerPolicy.DropNewest"/> or because nothing older could go.</summary>
    public long DroppedNewestMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long DroppedNewestBytes { get; init; }

    /// <summary>Dropped because their client was disconnected for not reading.</summary>
    public long DroppedSlowConsumerMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long DroppedSlowConsumerBytes { get; init; }

    /// <summary>Dropped because their connection was closed, or being closed.</summary>
    public long DroppedClosedMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long DroppedClosedBytes { get; init; }

    /// <summary>Deliveries whose connection broke.</summary>
    public long FailedMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long FailedBytes { get; init; }

    /// <summary>Deliveries that wait for their client to read.</summary>
    public long PendingMessages { get; init; }

    /// <summary>Their bytes.</summary>
    public long PendingBytes { get; init; }

    /// <summary>Connections that are established.</summary>
    public int Connections { get; init; }

    /// <summary>Groups that have members here.</summary>
    public int Groups { get; init; }

    /// <summary>Connections that ended.</summary>
    public long Disconnects { get; init; }

    /// <summary>Those of them that were ended because they did not read.</summary>
    public long SlowConsumerDisconnects { get; init; }

    /// <summary>Control messages that were not understood, and ignored.</summary>
    public long UnknownControlMessages { get; init; }
}
