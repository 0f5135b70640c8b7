using BatchKit.Batches;

namespace BatchKit.Dispatch;

/// <summary>The batches that wait in a partition, in order. Linked through the batches themselves; guarded by the partition's lock.</summary>
/// <remarks>Each batch has a place. Up to the released place batches may be sent; those behind it linger.</remarks>
internal struct BatchQueue
{
    private RoutedBatch? _last;

    // The last of those at the start that wait for a busy receiver; null when none does.
    private RoutedBatch? _passed;
    private long _lastPlace;
    private long _lastNamedPlace;

    public RoutedBatch? First { get; private set; }

    public readonly long LastPlace => _lastPlace;

    public long ReleasedPlace { get; private set; }

    /// <summary>The first that does not wait for a busy receiver.</summary>
    public readonly RoutedBatch? Next => _passed is null ? First : _passed.Next;

    public readonly bool HasReleased => Next is { } next && IsReleased(next);

    /// <summary>
    /// Whether a message may be added to a queued batch without overtaking anything. A batch for a name may grow while no batch is queued behind it; a batch for a connection, while no batch
    /// for a name is. Connections have no order among each other, because a client sees only its own output.
    /// </summary>
    /// <remarks>Reads outside the partition's lock: what is queued meanwhile counts as written at the same time.</remarks>
    public readonly bool MayGrow(RoutedBatch batch) =>
        batch.Place >= (batch.Content.Handle.IsConnection ? Volatile.Read(in _lastNamedPlace) : Volatile.Read(in _lastPlace));

    public readonly bool IsReleased(RoutedBatch batch) => batch.Place <= ReleasedPlace;

    public void Release(long place) => ReleasedPlace = Math.Max(ReleasedPlace, place);

    /// <summary>Gives batches that are linked with each other their places, and counts the changes of groups among them.</summary>
    public void AssignPlaces(RoutedBatch first, GroupChanges changes)
    {
        for (RoutedBatch? batch = first; batch is not null; batch = batch.Next)
        {
            batch.Place = _lastPlace + 1;
            Volatile.Write(ref _lastPlace, batch.Place);
            if (!batch.Content.Handle.IsConnection)
                Volatile.Write(ref _lastNamedPlace, batch.Place);
            changes.Note(in batch.Content.Memory, first: 0);
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

    public readonly (long Messages, long Bytes) CountPending()
    {
        var pending = (Messages: 0L, Bytes: 0L);
        for (var batch = First; batch is not null; batch = batch.Next)
            batch.AddTo(ref pending);
        return pending;
    }

    /// <summary>Whether <see cref="Next"/> fits into a send. What a scope held leaves in one: a send does not begin it when only a part of it fits.</summary>
    public readonly bool NextFits(long bytes, int batches, long maxBytes, int maxBatches)
    {
        var next = Next!;
        if (next.RunLength > 1 && next.RunLength <= maxBatches && next.CountRunBytes() is var runBytes && runBytes <= maxBytes)
            return batches + next.RunLength <= maxBatches && bytes + runBytes <= maxBytes;
        return batches < maxBatches && bytes + next.Content.FrameBytes <= maxBytes;
    }

    /// <summary>Leaves <see cref="Next"/> where it is: it waits for a busy receiver, and those after it may pass.</summary>
    public void Pass() => _passed = Next;

    /// <summary>A receiver is not busy any more: looks at all from the start again.</summary>
    public void Rewind() => _passed = null;

    /// <summary>Removes <see cref="Next"/>.</summary>
    public RoutedBatch Dequeue()
    {
        var batch = Next!;
        Unlink(batch, _passed);
        return batch;
    }

    /// <summary>Removes a batch that waits here.</summary>
    public void Remove(RoutedBatch batch)
    {
        if (batch == _passed)
            _passed = batch.Previous;
        Unlink(batch, batch.Previous);
    }

    private void Unlink(RoutedBatch batch, RoutedBatch? previous)
    {
        var next = batch.Next;
        if (previous is null)
            First = next;
        else
            previous.Next = next;
        if (next is null)
            _last = previous;
        else if (batch.Queue is not null)
            next.Previous = previous;
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

/// <summary>How long the queued batches of a partition linger: each waits for others before it may be sent. Guarded by the partition's lock.</summary>
internal struct LingerQueue
{
    private Queue<(long Place, long Ends)>? _waiting;

    public void Add(long place, long ends) => (_waiting ??= new Queue<(long, long)>()).Enqueue((place, ends));

    /// <summary>Takes out what has lingered long enough.</summary>
    /// <returns>The last place that may be sent then.</returns>
    public readonly long TakeEnded(long releasedPlace, BufferClock clock)
    {
        while (_waiting is not null && _waiting.TryPeek(out var next) && clock.Until(next.Ends) <= TimeSpan.Zero)
            releasedPlace = Math.Max(releasedPlace, _waiting.Dequeue().Place);
        return releasedPlace;
    }

    /// <summary>When the next one ends; null when none lingers. What was released meanwhile needs no timer.</summary>
    public readonly long? FindNextEnd(long releasedPlace)
    {
        while (_waiting is not null && _waiting.TryPeek(out var released) && released.Place <= releasedPlace)
            _waiting.Dequeue();
        return _waiting is not null && _waiting.TryPeek(out var next) ? next.Ends : null;
    }
}
