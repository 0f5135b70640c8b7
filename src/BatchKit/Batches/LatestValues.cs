namespace BatchKit.Batches;

/// <summary>Where the latest value of each key waits, of one handle. Guarded by the handle's lock.</summary>
internal sealed class LatestValues(OutputHandle handle, GroupChanges changes)
{
    /// <summary>What a key takes while its value waits: an entry of the dictionary with its bucket, and a slot. It counts, so that many keys with small values can't take more memory than the buffer's limit.</summary>
    public const int KeyBytes = 72;

    private readonly Dictionary<long, LatestPlace> _places = [];
    private LatestSlots? _spare;

    // The changes of its group before the value that is being written: read before that is added anywhere.
    private long _changes;

    /// <summary>Finds the value that waits, if one with that header may take its place. Its sender has not sealed it, and its group has had the same members since. Each value is looked for before it is added.</summary>
    public bool TryFind(long key, MessageHeader? header, out LatestPlace place)
    {
        _changes = changes.CountOf(handle);
        return _places.TryGetValue(key, out place) && place.Changes == _changes && place.Batch.IsOpen(place.Version) && place.Batch.MayReplace(place.Slot, header);
    }

    /// <summary>Remembers the last message of a batch.</summary>
    public void Add(long key, PendingBatch batch) => _places[key] = new LatestPlace(batch, batch.Version, batch.AddLatest(key, this), _changes);

    public LatestSlots RentSlots()
    {
        var slots = _spare ?? new LatestSlots(this);
        _spare = null;
        return slots;
    }

    /// <summary>Forgets a batch's values, except those that a newer one was written behind.</summary>
    public void Forget(PendingBatch batch, LatestSlots slots)
    {
        foreach (ref readonly var slot in slots.All)
        {
            if (_places.TryGetValue(slot.Key, out var place) && place.Batch == batch)
                _places.Remove(slot.Key);
        }

        _spare = slots;
    }
}

/// <summary>Where a latest value waits.</summary>
/// <param name="Batch">Its batch.</param>
/// <param name="Version">Which use of the pooled batch.</param>
/// <param name="Slot">Which of the batch's slots.</param>
/// <param name="Changes">How often its group's members had changed before it.</param>
internal readonly record struct LatestPlace(PendingBatch Batch, long Version, int Slot, long Changes);

/// <summary>Where a latest value is.</summary>
/// <param name="key">Its key.</param>
/// <param name="message">Which of the batch's messages it is.</param>
/// <param name="start">Where its bytes begin.</param>
/// <param name="length">How many bytes it has.</param>
internal struct LatestSlot(long key, int message, int start, int length)
{
    public readonly long Key => key;

    public readonly int Message => message;

    public int Start { get; set; } = start;

    public int Length { get; set; } = length;

    /// <summary>The most bytes that fit at its start.</summary>
    public int Capacity { get; set; } = length;

    /// <summary>True when it outgrew its place in the batch's memory.</summary>
    public bool IsMoved { get; set; }
}

/// <summary>The latest values of one batch that its sender has not sealed. A newer one of at most the same size is copied over the old one; larger ones are kept aside, and all are put in order once, when the batch is sealed.</summary>
internal sealed class LatestSlots(LatestValues owner)
{
    private const int FirstSlots = 16;

    // A spare one keeps no more.
    private const int MaxKeptSlots = 4096;
    private const int MaxKeptBytes = 4096;

    private LatestSlot[] _slots = new LatestSlot[FirstSlots];
    private int _count;
    private bool _areMoved;

    // The values that outgrew their place, and behind them the memory that the next one is written to.
    private byte[] _moved = [];
    private int _movedBytes;
    private int _movedInUse;

    public ReadOnlySpan<LatestSlot> All => _slots.AsSpan(0, _count);

    public int MessageOf(int slot) => _slots[slot].Message;

    public int LengthOf(int slot) => _slots[slot].Length;

    public int Add(in LatestSlot slot)
    {
        if (_slots.Length == _count)
            Array.Resize(ref _slots, _count * 2);
        _slots[_count] = slot;
        return _count++;
    }

    /// <summary>Writes a newer value. One that may fail is written aside first, so that the old one stays when it does.</summary>
    /// <returns>How many bytes it took; negative when it could not be encoded.</returns>
    public int Write<TPayload>(int index, scoped ref TPayload payload, byte[] bytes)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        ref var slot = ref _slots[index];
        var length = slot.Length;
        if (!TPayload.MayFail && payload.MaxBytes <= slot.Capacity)
            slot.Length = payload.WriteTo((slot.IsMoved ? _moved : bytes).AsSpan(slot.Start, payload.MaxBytes));
        else if (!TryWriteAside(ref slot, ref payload, bytes))
            return -1;
        _areMoved |= slot.Length != length;
        return slot.Length;
    }

    /// <summary>The batch is being sealed.</summary>
    /// <returns>How many bytes its keys took.</returns>
    public int End(PendingBatch batch, ref BatchMemory memory)
    {
        var keyBytes = _count * LatestValues.KeyBytes;
        if (_areMoved)
            memory.Rebuild(All, _moved);
        memory.KeepLatest(All);
        owner.Forget(batch, this);
        _count = _movedBytes = _movedInUse = 0;
        _areMoved = false;
        if (_slots.Length > MaxKeptSlots)
            _slots = new LatestSlot[FirstSlots];
        if (_moved.Length > MaxKeptBytes)
        {
            BatchMemory.Return(_moved);
            _moved = [];
        }

        return keyBytes;
    }

    private bool TryWriteAside<TPayload>(ref LatestSlot slot, scoped ref TPayload payload, byte[] bytes)
        where TPayload : struct, IMessagePayload, allows ref struct
    {
        if (_moved.Length - _movedBytes < payload.MaxBytes)
            GrowMoved(payload.MaxBytes);
        var written = payload.WriteTo(_moved.AsSpan(_movedBytes, payload.MaxBytes));
        if (written < 0)
            return false;
        slot.Length = written;
        if (written <= slot.Capacity)
            _moved.AsSpan(_movedBytes, written).CopyTo((slot.IsMoved ? _moved : bytes).AsSpan(slot.Start));
        else
            Move(ref slot, written);
        return true;
    }

    private void Move(ref LatestSlot slot, int written)
    {
        _movedInUse += written - (slot.IsMoved ? slot.Capacity : 0);
        (slot.Start, slot.Capacity, slot.IsMoved) = (_movedBytes, written, true);
        _movedBytes += written;
    }

    // Doubles, so that each byte is copied about once, whatever was replaced.
    private void GrowMoved(int bytes)
    {
        var grown = BatchMemory.Rent((int)Math.Max(checked(_movedInUse + bytes), Math.Min(_movedInUse * 2L, Array.MaxLength)));
        var end = 0;
        foreach (ref var slot in _slots.AsSpan(0, _count))
        {
            if (!slot.IsMoved)
                continue;
            _moved.AsSpan(slot.Start, slot.Length).CopyTo(grown.AsSpan(end));
            slot.Start = end;
            end += slot.Capacity;
        }

        _movedBytes = end;
        BatchMemory.Return(_moved);
        _moved = grown;
    }
}
