namespace BatchKit.Broadcast.Connections;

/// <summary>What became of a message for one connection.</summary>
internal enum DeliveryOutcome
{
    /// <summary>The socket took all of it.</summary>
    Sent = 0,

    /// <summary>It made room for newer output.</summary>
    DroppedOldest = 1,

    /// <summary>There was no room for it.</summary>
    DroppedNewest = 2,

    /// <summary>Its client was disconnected because it did not read.</summary>
    DroppedSlowConsumer = 3,

    /// <summary>Its connection was closed before it could be sent.</summary>
    DroppedClosed = 4,

    /// <summary>Its connection broke.</summary>
    Failed = 5,
}
