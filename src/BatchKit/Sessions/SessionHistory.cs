namespace BatchKit.Sessions;

/// <summary>A message in the histories. Those of a group's members share it.</summary>
/// <param name="payload">Its bytes.</param>
/// <param name="header">Its header; null for a plain message.</param>
/// <param name="latest">Whose latest value it is; null for most messages.</param>
/// <param name="deadline">A timestamp from which on it is not forwarded.</param>
internal sealed class SessionMessage(byte[] payload, MessageHeader? header, (OutputHandle Handle, long Key)? latest, long deadline = SessionMessage.NoDeadline)
{
    /// <summary>This object and its array, besides the payload.</summary>
    public const int OverheadBytes = 96;

    public const long NoDeadline = long.MaxValue;

    // An entry of the dictionary that finds the older value.
    private const int KeyBytes = 64;

    private int _references;

    /// <summary>Stands in a history for a message that was too old when it was to be forwarded: its client is told of the gap.</summary>
    public static SessionMessage Expired { get; } = new([], header: null, latest: null);

    public byte[] Payload => payload;

    /// <summary>Whose latest value it is; null for most messages.</summary>
    public (OutputHandle Handle, long Key)? Latest => latest;

    public long Deadline => deadline;

    /// <summary>True for what only telnet clients get: another client's connection leaves it out, and the client would miss its number.</summary>
    public bool IsForTelnet => header?.ContentType is { } type && (type is "application/vnd.gmcp" or "application/vnd.msdp" || type.StartsWith("application/vnd.telnet.", StringComparison.Ordinal));

    public int Bytes { get; } = OverheadBytes + payload.Length + (header?.EncodedBytes ?? 0) + (latest is null ? 0 : KeyBytes);

    /// <summary>Its header, with the time that is left until its deadline.</summary>
    public MessageHeader? HeaderAt(long now, TimeProvider timeProvider) =>
        deadline == NoDeadline ? header : header!.WithTimeToLive(TimeSpan.FromTicks(Math.Max(1, timeProvider.GetElapsedTime(now, deadline).Ticks)));

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

/// <summary>A message's place in a history.</summary>
/// <param name="Number">Its number.</param>
/// <param name="Message">The message; null when a newer value has replaced it.</param>
internal readonly record struct SessionEntry(long Number, SessionMessage? Message);

/// <summary>The numbered messages of a session that its client may still need. The session's lock guards it.</summary>
internal sealed class SessionHistory(SessionCounters counters)
{
    // An entry, twice, because the ring grows by doubling.
    private const int EntryBytes = 32;
    private const int MaxKeptEntries = 64;
    private const int FirstEntries = 8;

    // A power of two. Numbers rise, with gaps where messages were superseded. The first entry has a message; an empty one behind it leaves when the ring is full.
    private SessionEntry[] _entries = [];
    private int _start;
    private int _count;
    private int _empty;
    private Dictionary<(OutputHandle Handle, long Key), long>? _latest;

    /// <summary>The first number that was not dropped: of a message that it has, or that a newer one has replaced; that of the next message when there is neither.</summary>
    public long First { get; private set; } = 1;

    /// <summary>The number of the next message.</summary>
    public long Next { get; private set; } = 1;

    public long Bytes { get; private set; }

    /// <summary>How many messages were dropped because a limit was reached.</summary>
    public long Evicted { get; private set; }

    /// <summary>How many were too old when they were to be forwarded.</summary>
    public long Expired { get; private set; }

    /// <summary>Numbers a message and keeps it. A latest value takes the place of the older one with its key.</summary>
    public void Append(SessionMessage message)
    {
        if (message.Latest is { } key)
            Supersede(key);
        if (_count == _entries.Length)
            MakeRoom();
        message.Retain(counters);
        _count++;
        At(_count - 1) = new SessionEntry(Next, message);
        Next++;
        SessionCounters.Add(ref counters.Numbered, 1);
        Count(EntryBytes, message.Bytes);
    }

    /// <summary>Gives what it has from a number on to be forwarded, up to the most that leaves at once and until it has given so many bytes. Of what is too old only the place is left.</summary>
    /// <returns>The number behind what it gave.</returns>
    public long CopyTo(ForwardedWork work, long from, long maxBytes, long now)
    {
        var index = FindIndex(from);
        for (; index < _count && work.Count < ForwardedWork.MaxMessages && maxBytes > 0; index++)
        {
            ref var entry = ref At(index);
            if (entry.Message is not { } message)
                continue;
            if (message.Deadline <= now)
                Expire(ref entry, message);
            work.Add(entry);
            maxBytes -= message.Bytes;
            from = entry.Number + 1;
        }

        return index < _count ? from : Next;
    }

    /// <summary>True when a message has become too old since it was given.</summary>
    public bool HasExpired(long number, long now)
    {
        var index = FindIndex(number);
        return index < _count && At(index).Number == number && At(index).Message?.Deadline <= now;
    }

    /// <summary>Forgets what the client has: all up to a number.</summary>
    public void Acknowledge(long number)
    {
        while (_count > 0 && At(0).Number <= number)
            DropFirst(ref counters.Acknowledged);
        First = Math.Max(First, number + 1);
    }

    /// <summary>Drops the oldest messages while there are more bytes.</summary>
    public void Trim(long maxBytes)
    {
        while (_count > 0 && Bytes > maxBytes)
            Evicted += DropFirst(ref counters.Evicted);
    }

    /// <summary>Forgets everything, because the session has ended.</summary>
    /// <returns>How many messages it had from a number on.</returns>
    public int Discard(long from)
    {
        var messages = 0;
        while (_count > 0)
        {
            var isCounted = At(0).Number >= from;
            var dropped = DropFirst(ref counters.Discarded);
            messages += isCounted ? dropped : 0;
        }

        First = Next;
        return messages;
    }

    private ref SessionEntry At(int index) => ref _entries[(_start + index) & (_entries.Length - 1)];

    // The first entry with at least this number.
    private int FindIndex(long number)
    {
        var (low, high) = (0, _count);
        while (low < high)
        {
            var middle = low + ((high - low) / 2);
            if (At(middle).Number < number)
                low = middle + 1;
            else
                high = middle;
        }

        return low;
    }

    private int DropFirst(ref long counter)
    {
        var (number, message) = At(0);
        RemoveFirst();
        First = number + 1;
        var isMessage = message != SessionMessage.Expired;
        if (isMessage)
        {
            SessionCounters.Add(ref counter, 1);
            Forget(number, message!);
        }

        Count(-EntryBytes, 0);
        RemoveEmpty();
        if (_count == 0 && _entries.Length > MaxKeptEntries)
            (_entries, _latest, _start) = ([], null, 0);
        return isMessage ? 1 : 0;
    }

    // A number without an entry takes no memory: values that are written often push out nothing else.
    private void Supersede((OutputHandle Handle, long Key) key)
    {
        _latest ??= [];
        if (_latest.TryGetValue(key, out var older))
        {
            ref var entry = ref At(FindIndex(older));
            var message = entry.Message!;
            entry = entry with { Message = null };
            _empty++;
            SessionCounters.Add(ref counters.Superseded, 1);
            Forget(older, message);
            Count(-EntryBytes, 0);
            RemoveEmpty();
        }

        _latest[key] = Next;
    }

    private void Expire(ref SessionEntry entry, SessionMessage message)
    {
        SessionCounters.Add(ref counters.ExpiredMessages, 1);
        Expired++;
        Forget(entry.Number, message);
        entry = entry with { Message = SessionMessage.Expired };
    }

    private void Forget(long number, SessionMessage message)
    {
        Bytes -= message.Bytes;
        message.Release(counters);
        if (message.Latest is { } key && _latest is { } latest && latest.GetValueOrDefault(key) == number)
            latest.Remove(key);
    }

    // What messages take in all histories is counted where they are retained.
    private void Count(int entryBytes, int messageBytes)
    {
        Bytes += entryBytes + messageBytes;
        SessionCounters.Add(ref counters.Bytes, entryBytes);
    }

    private void RemoveEmpty()
    {
        while (_count > 0 && At(0).Message is null)
        {
            RemoveFirst();
            _empty--;
        }
    }

    private void RemoveFirst()
    {
        At(0) = default;
        _start = (_start + 1) & (_entries.Length - 1);
        _count--;
    }

    // In place where that frees enough, so that each entry is moved a few times at most.
    private void MakeRoom()
    {
        var isInPlace = _empty > _entries.Length / 4;
        var target = isInPlace ? _entries : new SessionEntry[Math.Max(FirstEntries, _entries.Length * 2)];
        var (start, kept, count) = (isInPlace ? _start : 0, 0, _count);
        for (var index = 0; index < count; index++)
        {
            var entry = At(index);
            if (isInPlace)
                At(index) = default;
            if (entry.Message is not null)
                target[(start + kept++) & (target.Length - 1)] = entry;
        }

        (_entries, _start, _count, _empty) = (target, start, kept, 0);
    }
}
