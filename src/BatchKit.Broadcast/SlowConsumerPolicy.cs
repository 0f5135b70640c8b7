namespace BatchKit.Broadcast;

/// <summary>What happens to output for a client whose queue is full.</summary>
public enum SlowConsumerPolicy
{
    /// <summary>The client is disconnected at once: it would miss output without knowing. The default.</summary>
    Disconnect = 0,

    /// <summary>The oldest output that is not under way makes room, counted as dropped; for clients that only want the latest.</summary>
    DropOldest = 1,

    /// <summary>The new output is dropped and counted; what waits is kept.</summary>
    DropNewest = 2,
}
