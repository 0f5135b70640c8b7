namespace BatchKit.Postgres;

/// <summary>What an ordered queue does with a message that has failed as often as it may.</summary>
public enum PoisonPolicy
{
    /// <summary>It goes to the dead table, and its key goes on without it.</summary>
    Bury = 0,

    /// <summary>It is tried for ever, at the longest pause; what has the same key waits behind it, other keys go on.</summary>
    Block = 1,
}
