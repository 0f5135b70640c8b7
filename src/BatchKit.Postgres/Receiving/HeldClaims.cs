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

/// <summary>A claim that this process holds, and the token that its handler gets.</summary>
internal sealed class HeldClaim(Claim claim, long claimedAt) : IDisposable
{
    // Guards the source against a cancellation after its disposal.
    private readonly Lock _lock = new();
    private readonly CancellationTokenSource _cancellation = new();
    private bool _isDisposed;
    private volatile bool _isLost;
    private volatile bool _isSettling;
    private long _renewedAt = claimedAt;

    public Claim Claim { get; private set; } = claim;

    /// <summary>The time stamp of this process's clock from just before the server was asked for it, in the try that brought it.</summary>
    public long ClaimedAt { get; } = claimedAt;

    /// <summary>Cancelled when the claim is lost, or the receiver waits no longer.</summary>
    public CancellationToken Token => _cancellation.Token;

    /// <summary>The time stamp of this process's clock from just before the server renewed it.</summary>
    public long RenewedAt
    {
        get => Volatile.Read(ref _renewedAt);
        set => Volatile.Write(ref _renewedAt, value);
    }

    public bool IsLost => _isLost;

    /// <summary>Set from the moment that its settlement is sent: from then on it may be missing on the server, and be none the worse.</summary>
    public bool IsSettling
    {
        get => _isSettling;
        set => _isSettling = value;
    }

    public Task LoseAsync()
    {
        _isLost = true;
        return CancelAsync();
    }

    public Task CancelAsync()
    {
        lock (_lock)
            return _isDisposed ? Task.CompletedTask : _cancellation.CancelAsync();
    }

    /// <summary>Gives all its messages back unhandled; copies, because a handler that does not end may still speak of the others.</summary>
    public void ReleaseAll()
    {
        var batch = Claim.Batch;
        var copies = new QueueMessage[batch.Count];
        for (var index = 0; index < copies.Length; index++)
        {
            var message = batch[index];
            copies[index] = new QueueMessage(message.Id, message.Attempt, message.Priority, message.EnqueuedAt, message.Key, message.Header, message.Payload);
            copies[index].Release();
        }

        Claim = new Claim(Claim.Token, Claim.Shard, new QueueBatch(batch.Queue, copies));
    }

    public void Dispose()
    {
        lock (_lock)
        {
            _isDisposed = true;
            _cancellation.Dispose();
        }
    }
}
