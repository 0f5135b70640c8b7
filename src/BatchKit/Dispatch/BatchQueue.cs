using BatchKit.Batches;

namespace BatchKit.Dispatch;

/// <summary>The batches that wait in a partition, in order. Linked through the batches themselves; guarded by the partition's lock.</summary>
/// <remarks>Each batch has a place. Up to the released place batches may be sent; those behind it linger.</remarks>
internal struct BatchQueue
{
    private RoutedBatch? _last;
    private long _lastPlace;
    private long _lastNamedPlace;

    public RoutedBatch? First { get; private set; }

    public readonly long LastPlace => _lastPlace;

    public long ReleasedPlace { get; private set; }

    public readonly bool HasReleased => First is not null && IsReleased(First);

    /// <summary>
    /// Whether a message may be added to a queued batch without overtaking anything. A batch for a name may grow while no batch is queued behind it; a batch for a connection, while no batch
    /// for a name is. Connections have no order among each other, because a client sees only its own output.
    /// </summary>
    /// <remarks>Reads outside the partition's lock: what is queued meanwhile counts as written at the same time.</remarks>
    public readonly bool MayGrow(RoutedBatch batch) =>
        batch.Place >= (batch.Content.Handle.IsConnection ? Volatile.Read(in _lastNamedPlace) : Volatile.Read(in _lastPlace));

    public readonly bool IsReleased(RoutedBatch batch) => batch.Place <= ReleasedPlace;

    public void Release(long place) => ReleasedPlace = Math.Max(ReleasedPlace, place);

    /// <summary>Gives batches that are linked with each other their places.</summary>
    public void AssignPlaces(RoutedBatch first)
    {
        for (RoutedBatch? batch = first; batch is not null; batch = batch.Next)
        {
            batch.Place = _lastPlace + 1;
            Volatile.Write(ref _lastPlace, batch.Place);
            if (!batch.Content.Handle.IsConnection)
                Volatile.Write(ref _lastNamedPlace, batch.Place);
        }
    }

    public void Append(RoutedBatch first, RoutedBatch last)
    {
        if (_last is null)
            First = first;
        else
            _last.Next = first;
        _last = last;
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
