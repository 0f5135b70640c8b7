using BatchKit.Batches;
using BatchKit.Dispatch;

namespace BatchKit.Buffering;

/// <summary>Output of several handles that an ambient scope held back, queued in the order in which it was written.</summary>
internal sealed class OutputRun
{
    private readonly List<(PendingBatch Batch, DispatchPartition[] Partitions, int Place)> _batches = [];

    public void Add(PendingBatch batch, DispatchPartition[] partitions) => _batches.Add((batch, partitions, _batches.Count));

    /// <summary>Links the batches that one handle held, for one of its routes.</summary>
    /// <returns>The first of them.</returns>
    public static RoutedBatch Link(PendingBatch first, int route)
    {
        var head = first.Routes[route];
        head.BeginRun();
        for (var last = first; last.NextHeld is { } next; last = next)
        {
            last.Routes[route].Next = next.Routes[route];
            head.Lead();
        }

        return head;
    }

    /// <summary>Queues all of it, for each partition in one step. Call it under the locks of all its handles.</summary>
    public void Queue(ref SenderStarts starts)
    {
        // By place where the order is the same, because a handle's own batches must never change places.
        _batches.Sort(static (left, right) => (left.Batch.Order, left.Place).CompareTo((right.Batch.Order, right.Place)));
        var chains = new Dictionary<DispatchPartition, (RoutedBatch First, RoutedBatch Last)>();
        foreach (var (batch, partitions, _) in _batches)
        {
            for (var route = 0; route < partitions.Length; route++)
                Chain(chains, partitions[route], batch.Routes[route]);
        }

        foreach (var (partition, chain) in chains)
            starts.Add(partition, partition.Enqueue(chain.First, chain.Last, isUnscoped: false));
    }

    private static void Chain(Dictionary<DispatchPartition, (RoutedBatch First, RoutedBatch Last)> chains, DispatchPartition partition, RoutedBatch batch)
    {
        if (!chains.TryGetValue(partition, out var chain))
        {
            chain = (batch, batch);
            batch.BeginRun();
        }
        else
        {
            chain.Last.Next = batch;
            chain.Last = batch;
            chain.First.Lead();
        }

        chains[partition] = chain;
    }
}
