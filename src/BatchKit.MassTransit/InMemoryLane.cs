namespace BatchKit.MassTransit;

/// <summary>Bounds what waits between the two ends of an own in-memory bus, whose queues have no bound, and knows whether anybody receives.</summary>
internal sealed class InMemoryLane(int capacity) : IDisposable
{
    private readonly SemaphoreSlim _room = new(capacity, capacity);

    // A node, or -1 for none. Written by the receiver's start and stop, read by senders.
    private volatile int _receivingNode = -1;

    public int? ReceivingNode
    {
        get => _receivingNode < 0 ? null : _receivingNode;
        set => _receivingNode = value ?? -1;
    }

    public Task EnterAsync(CancellationToken cancellationToken) => _room.WaitAsync(cancellationToken);

    public void Leave() => _room.Release();

    /// <summary>Completes when all have left.</summary>
    public async Task DrainAsync(CancellationToken cancellationToken)
    {
        var taken = 0;
        try
        {
            for (; taken < capacity; taken++)
                await _room.WaitAsync(cancellationToken).ConfigureAwait(false);
        }
        finally
        {
            if (taken > 0)
                _room.Release(taken);
        }
    }

    public void Dispose() => _room.Dispose();
}
