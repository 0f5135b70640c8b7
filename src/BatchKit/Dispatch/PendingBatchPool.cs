using Microsoft.Extensions.ObjectPool;

namespace BatchKit.Dispatch;

/// <summary>Hands out empty batches and takes settled ones back; knows the budget that they draw on.</summary>
internal sealed class PendingBatchPool : IPooledObjectPolicy<PendingBatch>
{
    // Some 700 bytes each: at most 12 MB kept after a burst, and 10,000 busy handles allocate nothing.
    private const int MaxRetained = 16_384;

    private readonly DefaultObjectPool<PendingBatch> _batches;

    public PendingBatchPool(ByteBudget budget)
    {
        Budget = budget;
        _batches = new DefaultObjectPool<PendingBatch>(this, MaxRetained);
    }

    public ByteBudget Budget { get; }

    public PendingBatch Rent() => _batches.Get();

    public void Return(PendingBatch batch) => _batches.Return(batch);

    PendingBatch IPooledObjectPolicy<PendingBatch>.Create() => new(this);

    bool IPooledObjectPolicy<PendingBatch>.Return(PendingBatch obj) => true;
}
