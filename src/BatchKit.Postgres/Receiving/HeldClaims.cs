namespace BatchKit.Postgres.Receiving;

/// <summary>All claims that a receiver holds now. Thread-safe.</summary>
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

    /// <summary>The time until a claim ends by this process's clock, unless it is renewed. By the server's clock it ends slightly later.</summary>
    public TimeSpan Left(HeldClaim held) => timeLimit - timeProvider.GetElapsedTime(held.RenewedAt);

    /// <summary>Cancels all handlers.</summary>
    public Task CancelAsync() => Task.WhenAll(Snapshot().Select(static held => held.CancelAsync()));
}

/// <summary>A claim that this process holds, with its handler's cancellation.</summary>
internal sealed class HeldClaim(Claim claim, long claimedAt) : IDisposable
{
    // Keeps the source from being cancelled after its disposal.
    private readonly Lock _lock = new();
    private readonly CancellationTokenSource _cancellation = new();
    private bool _isDisposed;
    private volatile bool _isLost;
    private volatile bool _isSettling;
    private long _renewedAt = claimedAt;

    public Claim Claim { get; private set; } = claim;

    /// <summary>The time stamp, by this process's clock, of the request that returned the claim.</summary>
    public long ClaimedAt { get; } = claimedAt;

    /// <summary>Cancelled when the claim is lost, or the receiver no longer waits for its handler.</summary>
    public CancellationToken Token => _cancellation.Token;

    /// <summary>The time stamp, by this process's clock, of the last request that renewed the claim.</summary>
    public long RenewedAt
    {
        get => Volatile.Read(ref _renewedAt);
        set => Volatile.Write(ref _renewedAt, value);
    }

    public bool IsLost => _isLost;

    /// <summary>True once its settlement is being sent: from then on the server may no longer have it, which is no loss.</summary>
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

    /// <summary>Cancels the handler. What its callbacks throw is the handler's own affair: neither renewal nor a stop ends with it.</summary>
    public async Task CancelAsync()
    {
        Task cancelled;
        lock (_lock)
            cancelled = _isDisposed ? Task.CompletedTask : _cancellation.CancelAsync();
        await cancelled.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    /// <summary>Marks all its messages as not handled, on copies, because a handler that does not end may still mark the originals.</summary>
    public void ReleaseAll()
    {
        var batch = Claim.Batch;
        var copies = new QueueMessage[batch.Count];
        for (var index = 0; index < copies.Length; index++)
        {
            var message = batch[index];
            if (message.IsWithheld)
            {
                copies[index] = message;
                continue;
            }

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
