namespace BatchKit.Dispatch;

/// <summary>How a batch ended, from best to worst: with several routes the worst counts.</summary>
internal enum Settled
{
    Acknowledged = 0,

    /// <summary>Dropped to make room for newer output.</summary>
    Evicted = 1,

    /// <summary>Dropped because the drain limit passed.</summary>
    Stopped = 2,

    Failed = 3,
}
