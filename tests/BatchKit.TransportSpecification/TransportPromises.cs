namespace BatchKit.TransportSpecification;

/// <summary>What a transport and its receiver promise, beyond what every one must.</summary>
[Flags]
public enum TransportPromises
{
    /// <summary>Only what every one must: each message arrives at least once.</summary>
    None = 0,

    /// <summary>Order holds across all handles of one producer.</summary>
    Ordered = 1,

    /// <summary>What is sent again is dropped by the receiver.</summary>
    Once = 2,

    /// <summary>A send completes only after the receiver's next hop has the batches.</summary>
    AcknowledgesAfterNextHop = 4,

    /// <summary>A batch for a connection whose node has no receiver is refused, and its neighbours are not.</summary>
    RefusesMissingNodes = 8,
}
