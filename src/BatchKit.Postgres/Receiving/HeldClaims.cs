namespace BatchKit.Postgres.Receiving;

/// <summary>All claims that a receiver holds now. Any thread.</summary>
internal sealed class HeldClaims(TimeProvider timeProvider, TimeSpan timeLimit)
{
    // Guards the set.
    private readonly Lock _lock = new();
    private readonly HashSet<HeldClaim> _held = [];

    public HeldClaim Add(Claim claim, long claimedAt)
    {
        var held = new HeldClaim(claim, claimedAt);
        lock (_lock)
            _held.Add(held);
        return held;
    }

    public void Remove(HeldClaim held)
    {
        lock (_lock)
            _held.Remove(held);
        held.Dispose();
    }

    public List<HeldClaim> Snapshot()
    {
        lock (_lock)
            return [.. _held];
    }

    /// <summary>How long until a claim ends by this process's clock, if it is not renewed; the server's clock gives it as long, from a little later on.</summary>
    public TimeSpan Left(HeldClaim held) => timeLimit - timeProvider.GetElapsedTime(held.RenewedAt);

    /// <summary>Cancels all handlers.</summary>
    public Task CancelAsync() => Task.WhenAll(Snapshot().Select(static held => held.CancelAsync()));
}
