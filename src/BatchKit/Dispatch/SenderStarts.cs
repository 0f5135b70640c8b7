using System.Runtime.CompilerServices;

namespace BatchKit.Dispatch;

/// <summary>The partitions whose senders a caller starts once it has left its locks.</summary>
internal struct SenderStarts
{
    private DispatchPartition? _first;
    private List<DispatchPartition>? _more;

    public void Add(DispatchPartition partition, bool mustStart)
    {
        if (!mustStart)
            return;
        if (_first is null)
            _first = partition;
        else
            (_more ??= []).Add(partition);
    }

    /// <summary>True when this caller starts the partition, and sends on its own thread.</summary>
    public readonly bool IsInline(DispatchPartition partition) => ReferenceEquals(_first, partition) && partition.StartsInline;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public readonly void StartAll()
    {
        if (_first is not null)
            StartEach();
    }

    private readonly void StartEach()
    {
        _first!.Start();
        if (_more is null)
            return;
        foreach (var partition in _more)
            partition.Start();
    }
}
