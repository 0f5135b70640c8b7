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

    /// <summary>Adds batches that are linked with each other.</summary>
    /// <param name="first">The first of them.</param>
    /// <param name="last">The last of them.</param>
    /// <param name="owner">The queue that they know as theirs, where the oldest batches are dropped; null elsewhere.</param>
    public void Append(RoutedBatch first, RoutedBatch last, IDroppingQueue? owner)
    {
        if (owner is not null)
            Own(first, owner);
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
        batch.Queue = null;
        if (First is null)
            _last = null;
        else
            First.Previous = null;
        return batch;
    }

    /// <summary>Removes a batch that waits here.</summary>
    public void Remove(RoutedBatch batch)
    {
        if (batch.Previous is not { } previous)
        {
            Dequeue();
            return;
        }

        previous.Next = batch.Next;
        if (batch.Next is { } next)
            next.Previous = previous;
        else
            _last = previous;
        (batch.Next, batch.Previous, batch.Queue) = (null, null, null);
    }

    private readonly void Own(RoutedBatch first, IDroppingQueue owner)
    {
        var previous = _last;
        for (RoutedBatch? batch = first; batch is not null; batch = batch.Next)
        {
            (batch.Previous, batch.Queue) = (previous, owner);
            previous = batch;
        }
    }
}
