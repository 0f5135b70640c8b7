namespace BatchKit.Transports;

/// <summary>What became of one batch of a send that failed in part.</summary>
public enum BatchOutcome
{
    /// <summary>Not acknowledged: it will be sent again, unchanged. It may have arrived.</summary>
    Unacknowledged = 0,

    /// <summary>The next hop has it.</summary>
    Acknowledged = 1,

    /// <summary>The next hop will never take it (a node that is gone, a bad topic): it has failed and is not sent again.</summary>
    Refused = 2,
}
