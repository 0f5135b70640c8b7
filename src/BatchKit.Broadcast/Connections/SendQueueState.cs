namespace BatchKit.Broadcast.Connections;

/// <summary>Where a send queue stands.</summary>
internal enum SendQueueState
{
    /// <summary>It takes output.</summary>
    Open = 0,

    /// <summary>It takes no more, and writes what waits.</summary>
    Completing = 1,

    /// <summary>Nothing is written any more.</summary>
    Ended = 2,
}
