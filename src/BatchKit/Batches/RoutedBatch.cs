using BatchKit.Transports;

namespace BatchKit.Batches;

/// <summary>A queue that drops a batch out of its middle.</summary>
internal interface IDroppingQueue
{
    /// <summary>Drops a batch, if it still waits here in that use of it.</summary>
    bool TryDrop(RoutedBatch batch, long version);
}

/// <summary>A pending batch on one of its routes: numbered there, queued there, settled there. Its payload is shared.</summary>
internal sealed class RoutedBatch(PendingBatch content, int route) : MessageBatch
{
    public PendingBatch Content { get; } = content;

    /// <summary>The next in the partition's queue; guarded by the partition's lock.</summary>
    public RoutedBatch? Next { get; set; }

    /// <summary>Its place among all batches that were ever queued in the partition; that of the last one, when it did not have to be queued.</summary>
    public long Place { get; set; }

    public bool IsSettled { get; set; }

    /// <summary>True while a send has it, where the oldest batches are dropped.</summary>
    public bool IsUnderWay { get; set; }

    /// <summary>The queue that it waits in, where the oldest batches are dropped; guarded by the partition's lock.</summary>
    public IDroppingQueue? Queue { get; set; }

    /// <summary>The one before it in that queue; guarded by the partition's lock.</summary>
    public RoutedBatch? Previous { get; set; }

    /// <summary>How many batches a scope queued with it, itself included: they leave in one send. Zero for all but the first.</summary>
    public int RunLength { get; private set; }

    /// <summary>How many bytes those batches take in a frame now: latest values in them may still be replaced. Call it under the partition's lock, while they wait.</summary>
    public long CountRunBytes()
    {
        var bytes = 0L;
        var batch = this;
        for (var left = RunLength; left > 0 && batch is not null; left--)
        {
            bytes += batch.Content.FrameBytes;
            batch = batch.Next;
        }

        return bytes;
    }

    /// <summary>True for exactly one of the routes that have not settled it, so that a count over all partitions counts it once.</summary>
    public bool StandsForContent
    {
        get
        {
            for (var earlier = 0; earlier < route; earlier++)
            {
                if (!Content.Routes[earlier].IsSettled)
                    return false;
            }

            return !IsSettled;
        }
    }

    /// <summary>Adds its messages, unless another route counts them, and the bytes that it takes.</summary>
    public void AddTo(ref (long Messages, long Bytes) pending)
    {
        pending.Messages += StandsForContent ? Content.Count : 0;
        pending.Bytes += Content.Cost;
    }

    /// <summary>Gets the messages of its sealed content, if one is left.</summary>
    public void Take(OutputHandle handle, in BatchMemory memory)
    {
        if (memory.Count == 0)
            return;
        Assign(handle, memory.Bytes.AsMemory(0, memory.UsedBytes), memory.Ends, memory.Headers, memory.Count);
        if (memory.LatestCount > 0)
            AssignLatest(memory.Latest, memory.LatestCount);
    }

    internal override TimeSpan? TimeLeftOf(int message) => Content.Memory.DeadlineOf(message) is { } deadline ? Content.Settlement.TimeLeftUntil(deadline) : null;

    public void BeginRun() => RunLength = 1;

    public void Lead() => RunLength++;

    public void Reset(bool isOutgrown)
    {
        Next = null;
        RunLength = 0;
        IsSettled = false;
        if (isOutgrown)
            Unassign();
    }
}
