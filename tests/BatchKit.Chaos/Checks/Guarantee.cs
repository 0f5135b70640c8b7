using BatchKit.Chaos.Faults;

namespace BatchKit.Chaos.Checks;

/// <summary>When a message may arrive a second time.</summary>
internal enum Doubling
{
    /// <summary>When the receiver ended and started again: what it had not acknowledged, which is the last of what it received from each writer.</summary>
    WhenReceiverEnded = 0,

    /// <summary>When a fault met a worker that handled it, or the server, before it was completed. The message is stored once.</summary>
    WhenClaimLost = 1,
}

/// <summary>What a row of the guarantees table promises. Whatever it does not allow is a violation.</summary>
/// <param name="Transport">The row's transport.</param>
internal sealed record Guarantee(string Transport)
{
    /// <summary>When a message may arrive twice.</summary>
    public Doubling Doubling { get; init; }

    /// <summary>True when order holds for what a process writes to a connection and to its groups together, as with one partition; false when it holds for each target.</summary>
    public bool OrderedWithGroups { get; init; } = true;

    /// <summary>Faults during which a process may report messages as failed.</summary>
    public IReadOnlySet<FaultKind> Failing { get; init; } = new HashSet<FaultKind>();
}
