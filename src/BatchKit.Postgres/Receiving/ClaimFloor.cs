namespace BatchKit.Postgres.Receiving;

/// <summary>
/// Where claims begin to look. At the very beginning, as long as that is near: what was claimed leaves dead entries in the index, and while an old transaction keeps the server from clearing them away,
/// each look from the beginning would read them all. Any thread.
/// </summary>
internal sealed class ClaimFloor(TimeSpan farLook)
{
    private static readonly Position Beginning = new(short.MinValue, 0);

    private volatile Position _from = Beginning;

    // Written by the one task that does upkeep.
    private volatile bool _isFar;

    public Position From => _from;

    /// <summary>A look from the beginning took so long, and found this first. What came in below the floor, such as a higher priority, is found here at the latest.</summary>
    public void Looked(TimeSpan elapsed, short? rank, long? id)
    {
        _isFar = elapsed > farLook;
        _from = _isFar && rank is { } first && id is { } number ? new Position(first, number) : Beginning;
    }

    /// <summary>A claim that looked from there took messages; unless there was another look meanwhile, the next one begins where it ended.</summary>
    public void Claimed(Position from, IReadOnlyList<Claim> taken)
    {
        if (!_isFar || taken.Count == 0)
            return;
        var batch = taken[^1].Batch;
        var last = batch[batch.Count - 1];
        // A retry was found by another index.
        if (last.Attempt == 1)
            Interlocked.CompareExchange(ref _from, new Position((short)-last.Priority, last.Id), from);
    }

    /// <summary>A place in the order of claims.</summary>
    internal sealed record Position(short Rank, long Id);
}
