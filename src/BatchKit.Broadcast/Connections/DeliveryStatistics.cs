namespace BatchKit.Broadcast.Connections;

/// <summary>Reads a transport's counters.</summary>
internal static class DeliveryStatistics
{
    public static BroadcastStatistics Read(DeliveryCounters counters, ConnectionTable connections, int groups)
    {
        // Counted by looking, so that the sums can be checked against it.
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
