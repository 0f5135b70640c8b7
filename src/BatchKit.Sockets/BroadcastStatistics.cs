using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast;

/// <summary>A transport's counters. A message to 100 clients is 100 deliveries. Bytes are counted as encoded for the wire, before compression and encryption.</summary>
/// <remarks>Whenever nothing is being sent, <see cref="AcceptedMessages"/> = sent + dropped (all reasons) + superseded + failed + pending, and the same for bytes.</remarks>
public sealed record BroadcastStatistics
{
    /// <summary>Deliveries that were started. A delivery is a message for one connection.</summary>
    public long AcceptedMessages { get; init; }

    /// <summary>The bytes of <see cref="AcceptedMessages"/>.</summary>
    public long AcceptedBytes { get; init; }

    /// <summary>Deliveries that the client's socket took completely.</summary>
    public long SentMessages { get; init; }

    /// <summary>The bytes of <see cref="SentMessages"/>.</summary>
    public long SentBytes { get; init; }

    /// <summary>Deliveries dropped by <see cref="SlowConsumerPolicy.DropOldest"/> for newer output.</summary>
    public long DroppedOldestMessages { get; init; }

    /// <summary>The bytes of <see cref="DroppedOldestMessages"/>.</summary>
    public long DroppedOldestBytes { get; init; }

    /// <summary>Deliveries dropped by <see cref="SlowConsumerPolicy.DropNewest"/>, or by <see cref="SlowConsumerPolicy.DropOldest"/> when nothing older could be dropped.</summary>
    public long DroppedNewestMessages { get; init; }

    /// <summary>The bytes of <see cref="DroppedNewestMessages"/>.</summary>
    public long DroppedNewestBytes { get; init; }

    /// <summary>Deliveries dropped because their client did not read and was disconnected.</summary>
    public long DroppedSlowConsumerMessages { get; init; }

    /// <summary>The bytes of <see cref="DroppedSlowConsumerMessages"/>.</summary>
    public long DroppedSlowConsumerBytes { get; init; }

    /// <summary>Deliveries dropped because their connection was closed or closing.</summary>
    public long DroppedClosedMessages { get; init; }

    /// <summary>The bytes of <see cref="DroppedClosedMessages"/>.</summary>
    public long DroppedClosedBytes { get; init; }

    /// <summary>Latest values (<see cref="IOutputBuffer.WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)"/>) in whose place a newer one came while they waited for their client to read.</summary>
    public long SupersededMessages { get; init; }

    /// <summary>The bytes of <see cref="SupersededMessages"/>.</summary>
    public long SupersededBytes { get; init; }

    /// <summary>Deliveries that failed because their connection broke.</summary>
    public long FailedMessages { get; init; }

    /// <summary>The bytes of <see cref="FailedMessages"/>.</summary>
    public long FailedBytes { get; init; }

    /// <summary>Deliveries that wait for their client to read.</summary>
    public long PendingMessages { get; init; }

    /// <summary>The bytes of <see cref="PendingMessages"/>.</summary>
    public long PendingBytes { get; init; }

    /// <summary>Established connections.</summary>
    public int Connections { get; init; }

    /// <summary>Clients that did not keep up when the transport last looked, at most a second before; see <see cref="ClientConnection.IsSlow"/>.</summary>
    public int SlowClients { get; init; }

    /// <summary>Groups that have members on this node.</summary>
    public int Groups { get; init; }

    /// <summary>Connections that ended.</summary>
    public long Disconnects { get; init; }

    /// <summary>Connections that were ended because their clients did not read.</summary>
    public long SlowConsumerDisconnects { get; init; }

    /// <summary>Control messages that were ignored because they are unknown.</summary>
    public long UnknownControlMessages { get; init; }

    internal static BroadcastStatistics Read(DeliveryCounters counters, ConnectionTable connections, int groups)
    {
        // Summed from the queues themselves, so that the other counters can be checked against it.
        var pending = connections.All.Aggregate(default(Amount), (sum, connection) => sum + connection.Output.Waiting);
        return new BroadcastStatistics
        {
            AcceptedMessages = counters.Attempted.Messages,
            AcceptedBytes = counters.Attempted.Bytes,
            SentMessages = counters[DeliveryOutcome.Sent].Messages,
            SentBytes = counters[DeliveryOutcome.Sent].Bytes,
            DroppedOldestMessages = counters[DeliveryOutcome.DroppedOldest].Messages,
            DroppedOldestBytes = counters[DeliveryOutcome.DroppedOldest].Bytes,
            DroppedNewestMessages = counters[DeliveryOutcome.DroppedNewest].Messages,
            DroppedNewestBytes = counters[DeliveryOutcome.DroppedNewest].Bytes,
            DroppedSlowConsumerMessages = counters[DeliveryOutcome.DroppedSlowConsumer].Messages,
            DroppedSlowConsumerBytes = counters[DeliveryOutcome.DroppedSlowConsumer].Bytes,
            DroppedClosedMessages = counters[DeliveryOutcome.DroppedClosed].Messages,
            DroppedClosedBytes = counters[DeliveryOutcome.DroppedClosed].Bytes,
            SupersededMessages = counters[DeliveryOutcome.Superseded].Messages,
            SupersededBytes = counters[DeliveryOutcome.Superseded].Bytes,
            FailedMessages = counters[DeliveryOutcome.Failed].Messages,
            FailedBytes = counters[DeliveryOutcome.Failed].Bytes,
            PendingMessages = pending.Messages,
            PendingBytes = pending.Bytes,
            Connections = connections.Count,
            Groups = groups,
            Disconnects = Enum.GetValues<DisconnectReason>().Sum(connections.DisconnectsFor),
            SlowConsumerDisconnects = connections.DisconnectsFor(DisconnectReason.SlowConsumer),
            UnknownControlMessages = connections.UnknownControls,
        };
    }
}
