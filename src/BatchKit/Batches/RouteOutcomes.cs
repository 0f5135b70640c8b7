namespace BatchKit.Batches;

/// <summary>What became of one batch on each of its routes.</summary>
internal struct RouteOutcomes
{
    private int _routesLeft;
    private HashSet<int>? _refused;

    /// <summary>The worst outcome of all routes so far.</summary>
    public SettlementOutcome Worst { get; private set; }

    public Exception? Failure { get; private set; }

    /// <summary>How many messages of an acknowledged batch a next hop refused, on whichever route.</summary>
    public readonly int RefusedMessages => Worst == SettlementOutcome.Acknowledged && _refused is not null ? _refused.Count : 0;

    /// <summary>Why the messages of a batch that was not acknowledged, or those that were refused, are lost.</summary>
    public readonly DropReason LossReason => Worst switch
    {
        SettlementOutcome.Evicted => DropReason.Overflow,
        SettlementOutcome.Stopped => DropReason.Stopped,
        _ => DropReason.Failed,
    };

    public void Begin(int routes) => _routesLeft = routes;

    /// <returns>True: the batch is settled.</returns>
    public bool SettleOnly(SettlementOutcome outcome, Exception? failure, HashSet<int>? refused)
    {
        Worst = outcome;

        // Reset set both fields to null. Each store of a reference costs a write barrier, so a null is not stored again.
        if (failure is not null)
            Failure = failure;
        if (refused is not null)
            _refused = refused;
        return true;
    }

    /// <summary>Call it under a lock.</summary>
    /// <returns>True when that was the last route.</returns>
    public bool SettleOneOfSeveral(SettlementOutcome outcome, Exception? failure, HashSet<int>? refused)
    {
        if (outcome > Worst || (refused is not null && Failure is null))
            Failure = failure;
        if (outcome > Worst)
            Worst = outcome;
        if (refused is not null)
            (_refused ??= []).UnionWith(refused);
        return --_routesLeft == 0;
    }

    public void Reset()
    {
        Worst = SettlementOutcome.Acknowledged;
        Failure = null;
        _refused = null;
    }
}
