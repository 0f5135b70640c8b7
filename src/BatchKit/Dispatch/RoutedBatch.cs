using BatchKit.Transports;

namespace BatchKit.Dispatch;

/// <summary>A pending batch on one of its routes: numbered there, queued there, settled there. Its payload is shared.</summary>
internal sealed class RoutedBatch(PendingBatch content, int route) : MessageBatch
{
    public PendingBatch Content { get; } = content;

    /// <summary>The next in the partition's queue; guarded by the partition's lock.</summary>
    public RoutedBatch? Next { get; set; }

    public bool IsSettled { get; set; }

    /// <summary>True for one of the routes that have not settled it, so that a count over all partitions counts it once.</summary>
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

    public void Clear()
    {
        Next = null;
        IsSettled = false;
    }
}
