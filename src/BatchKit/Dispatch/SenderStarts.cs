namespace BatchKit.Dispatch;

/// <summary>What a caller who queued batches has to do once it has left its locks.</summary>
internal enum SenderStart
{
    /// <summary>Nothing: a sender is under way, or the output lingers.</summary>
    None,

    /// <summary>Start the partition, which sends on the caller's thread.</summary>
    Inline,

    /// <summary>Start the partition, which sends on the pool.</summary>
    OnPool,
}

/// <summary>The partitions whose senders a caller starts once it has left its locks.</summary>
internal struct SenderStarts
{
    private DispatchPartition? _first;
    private SenderStart _firstStart;
    private List<DispatchPartition>? _more;

    public void Add(DispatchPartition partition, SenderStart start)
    {
        if (start == SenderStart.None)
            return;
        if (_first is null)
            (_first, _firstStart) = (partition, start);
        else
            (_more ??= []).Add(partition);
    }

    public readonly bool IsInline(DispatchPartition partition) => ReferenceEquals(_first, partition) && _firstStart == SenderStart.Inline;

    public readonly void StartAll()
    {
        if (_first is null)
            return;
        _first.Start();
        if (_more is null)
            return;
        foreach (var partition in _more)
            partition.Start();
    }
}
