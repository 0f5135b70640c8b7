namespace BatchKit.Transports;

/// <summary>What the next hop said to one frame of a send.</summary>
public enum FrameOutcome
{
    /// <summary>It has it, for every receiver that it goes to.</summary>
    Acknowledged = 0,

    /// <summary>It did not take it now, and may another time.</summary>
    NotTaken = 1,

    /// <summary>It will never take it: the node is gone, or the frame is too large.</summary>
    Refused = 2,

    /// <summary>Nothing: the connection broke, or the time was up. It may have the frame.</summary>
    Unknown = 3,
}
