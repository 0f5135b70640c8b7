namespace BatchKit.Dispatch;

/// <summary>A route's partitions; a handle always maps to the same one.</summary>
internal sealed class DispatchRoute(DispatchPartition[] partitions)
{
    // An array for each, so that a handle with one route allocates none.
    private readonly DispatchPartition[][] _single = [.. partitions.Select(static partition => new[] { partition })];

    public DispatchPartition[] PartitionsOf(OutputHandle handle) =>
        _single[_single.Length == 1 ? 0 : (int)((uint)handle.GetHashCode() % (uint)_single.Length)];
}
