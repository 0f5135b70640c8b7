namespace BatchKit.Postgres.Receiving;

/// <summary>Counts what a receiver claims and settles. Thread-safe.</summary>
internal sealed class ReceiverCounters
{
    private long _claimedBatches;
    private long _claimedMessages;
    private long _completed;
    private long _retried;
    private long _buried;
    private long _released;
    private long _lost;
    private long _unreadable;
    private int _handling;
    private int _prefetched;
    private int _consecutiveFailures;

    public void Claimed(int messages)
    {
        Interlocked.Increment(ref _claimedBatches);
        Interlocked.Add(ref _claimedMessages, messages);
    }

    public void Settled(QueueBatch batch, OutcomePolicy policy)
    {
        Span<long> counts = stackalloc long[4];
        for (var index = 0; index < batch.Count; index++)
            counts[(int)policy.OutcomeOf(batch[index])]++;
        Interlocked.Add(ref _completed, counts[(int)MessageOutcome.Done]);
        Interlocked.Add(ref _retried, counts[(int)MessageOutcome.Retry]);
        Interlocked.Add(ref _buried, counts[(int)MessageOutcome.Dead]);
        Interlocked.Add(ref _released, counts[(int)MessageOutcome.Released]);
    }

    public void Buried(int messages) => Interlocked.Add(ref _buried, messages);

    public void Lost(int messages) => Interlocked.Add(ref _lost, messages);

    /// <returns>True for the first ones.</returns>
    public bool Unreadable(int messages) => Interlocked.Add(ref _unreadable, messages) == messages;

    public void Handling(int messages) => Interlocked.Add(ref _handling, messages);

    public void Prefetched(int messages) => Interlocked.Add(ref _prefetched, messages);

    public void Succeeded() => Volatile.Write(ref _consecutiveFailures, 0);

    /// <returns>True for the first failure after a success.</returns>
    public bool Failed() => Interlocked.Increment(ref _consecutiveFailures) == 1;

    public PostgresQueueReceiverStatistics Read() => new()
    {
        ClaimedBatches = Interlocked.Read(ref _claimedBatches),
        ClaimedMessages = Interlocked.Read(ref _claimedMessages),
        CompletedMessages = Interlocked.Read(ref _completed),
        RetriedMessages = Interlocked.Read(ref _retried),
        BuriedMessages = Interlocked.Read(ref _buried),
        ReleasedMessages = Interlocked.Read(ref _released),
        LostMessages = Interlocked.Read(ref _lost),
        UnreadableMessages = Interlocked.Read(ref _unreadable),
        HandlingMessages = Volatile.Read(ref _handling),
        PrefetchedMessages = Volatile.Read(ref _prefetched),
        ConsecutiveFailures = Volatile.Read(ref _consecutiveFailures),
    };
}
