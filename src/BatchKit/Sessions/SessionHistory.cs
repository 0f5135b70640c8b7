namespace BatchKit.Sessions;

/// <summary>A message in the histories. Those of a group's members share it.</summary>
internal sealed class SessionMessage(byte[] payload, MessageHeader? header, (OutputHandle Handle, long Key)? latest)
{
    /// <summary>This object and its array, besides the payload.</summary>
    public const int OverheadBytes = 96;

    // An entry of the dictionary that finds the older value.
    private const int KeyBytes = 64;

    private int _references;

    public byte[] Payload => payload;

    public MessageHeader? Header => header;

    /// <summary>Whose latest value it is; null for most messages.</summary>
    public (OutputHandle Handle, long Key)? Latest => latest;

    public int Bytes { get; } = OverheadBytes + payload.Length + (header?.EncodedBytes ?? 0) + (latest is null ? 0 : KeyBytes);

    public void Retain(SessionCounters counters)
    {
        if (Interlocked.Increment(ref _references) == 1)
            SessionCounters.Add(ref counters.Bytes, Bytes);
    }

    public void Release(SessionCounters counters)
    {
        if (Interlocked.Decrement(ref _references) == 0)
            SessionCounters.Add(ref counters.Bytes, -Bytes);
    }
}

/// <summary>The numbered messages of a session that its client may still need. The session's lock guards it.</summary>
internal sealed class SessionHistory(SessionOptions options, SessionCounters counters)
{
    // A slot's reference, twice, because the ring grows by doubling.
    private const int SlotBytes = 16;
    private const int MaxKeptSlots = 64;
    private const int FirstSlots = 8;

    // A power of two; a superseded message leaves an empty slot.
    private SessionMessage?[] _slots = [];
    private int _count;
    private Dictionary<(OutputHandle Handle, long Key), long>? _latest;

    /// <summary>The number of the oldest message that it has, or of the next one when it has none.</summary>
    public long First { get; private set; } = 1;

    /// <summary>The number of the next message.</summary>
    public long Next => First + _count;

    public long Bytes { get; private set; }

    private bool IsOverLimit => Bytes > options.MaxHistoryBytes || SessionCounters.Read(ref counters.Bytes) > options.MaxTotalBytes;

    /// <summary>A message by its number, from <see cref="First"/> on; null when a newer value has replaced it.</summary>
    public SessionMessage? this[long number] => _slots[(int)number & (_slots.Length - 1)];

    /// <summary>Numbers a message and keeps it. A latest value takes the place of the older one with its key.</summary>
    public void Append(SessionMessage message)
    {
        if (_count == _slots.Length)
            Grow();
        message.Retain(counters);
        _slots[(int)Next & (_slots.Length - 1)] = message;
        SessionCounters.Add(ref counters.Numbered, 1);
        SessionCounters.Add(ref counters.Bytes, SlotBytes);
        Bytes += SlotBytes + message.Bytes;
        if (message.Latest is { } key)
            Supersede(key);
        _count++;
    }

    /// <summary>Forgets what the client has: all up to a number.</summary>
    public void Acknowledge(long number)
    {
        while (_count > 0 && First <= number)
            DropFirst(ref counters.Acknowledged);
    }

    /// <summary>Drops the oldest messages while there are more bytes than a limit allows.</summary>
    public void Trim()
    {
        while (_count > 0 && IsOverLimit)
            DropFirst(ref counters.Evicted);
    }

    /// <summary>Forgets everything, because the session has ended.</summary>
    /// <returns>How many messages it had from a number on.</returns>
    public int Discard(long from)
    {
        var messages = 0;
        while (_count > 0)
        {
            var isCounted = First >= from;
            var dropped = DropFirst(ref counters.Discarded);
            messages += isCounted ? dropped : 0;
        }

        return messages;
    }

    private int DropFirst(ref long counter)
    {
        ref var slot = ref _slots[(int)First & (_slots.Length - 1)];
        var message = slot;
        slot = null;
        SessionCounters.Add(ref counters.Bytes, -SlotBytes);
        Bytes -= SlotBytes;
        if (message is not null)
        {
            SessionCounters.Add(ref counter, 1);
            Release(message);
            if (message.Latest is { } key && _latest is { } latest && latest.GetValueOrDefault(key) == First)
                latest.Remove(key);
        }

        First++;
        if (--_count == 0 && _slots.Length > MaxKeptSlots)
            (_slots, _latest) = ([], null);
        return message is null ? 0 : 1;
    }

    private void Supersede((OutputHandle Handle, long Key) key)
    {
        _latest ??= [];
        if (_latest.TryGetValue(key, out var older))
        {
            ref var slot = ref _slots[(int)older & (_slots.Length - 1)];
            SessionCounters.Add(ref counters.Superseded, 1);
            Release(slot!);
            slot = null;
        }

        _latest[key] = Next;
    }

    private void Release(SessionMessage message)
    {
        Bytes -= message.Bytes;
        message.Release(counters);
    }

    private void Grow()
    {
        var grown = new SessionMessage?[Math.Max(FirstSlots, _slots.Length * 2)];
        for (var number = First; number < Next; number++)
            grown[(int)number & (grown.Length - 1)] = this[number];
        _slots = grown;
    }
}
