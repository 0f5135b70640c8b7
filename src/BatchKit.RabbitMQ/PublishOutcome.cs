namespace BatchKit.RabbitMQ;

/// <summary>What the broker said to one frame.</summary>
internal enum PublishOutcome
{
    /// <summary>It has it, in every queue that it goes to.</summary>
    Confirmed = 0,

    /// <summary>No queue is bound to the frame's key: the node is gone, or not there yet.</summary>
    Returned,

    /// <summary>It could not take it, as when a queue is at a limit that its operator set.</summary>
    Nacked,

    /// <summary>It is larger than the options allow, and was not sent.</summary>
    TooLarge,

    /// <summary>Nothing: the connection broke, or the time was up. It may have the frame.</summary>
    Unknown,
}
