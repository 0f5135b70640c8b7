namespace BatchKit.Dispatch;

/// <summary>How a batch ended, from best to worst: with several routes the worst counts.</summary>
internal enum Settled
{
    Acknowledged = 0,
    Dropped = 1,
    Failed = 2,
}
