namespace BatchKit.Dispatch;

/// <summary>What waits in a partition, in order. Linked through the batches themselves; guarded by the partition's lock.</summary>
internal struct BatchQueue
{
    private RoutedBatch? _last;

    public RoutedBatch? First { get; private set; }

    public readonly bool IsEmpty => First is null;

    public void Enqueue(RoutedBatch batch)
    {
        if (_last is null)
            First = batch;
        else
            _last.Next = batch;
        _last = batch;
    }

    public RoutedBatch Dequeue()
    {
        var batch = First!;
        First = batch.Next;
        batch.Next = null;
        if (First is null)
            _last = null;
        return batch;
    }
}
