namespace BatchKit.Diagnostics;

/// <summary>Limits how often repeated events are logged: the first at once, and later ones together, at most once a period.</summary>
/// <remarks>For events that a client, or a next hop that fails, can repeat without end. What is held back is logged with the next event, or by <see cref="Flush"/>, whichever is first. All members are thread-safe.</remarks>
/// <param name="timeProvider">The clock of the period.</param>
/// <param name="period">The shortest time between two logs of an event; one minute when null.</param>
internal sealed class LogThrottle(TimeProvider timeProvider, TimeSpan? period = null)
{
    private readonly TimeSpan _period = period ?? TimeSpan.FromMinutes(1);

    // Guards the entries and their fields.
    private readonly Lock _lock = new();
    private readonly Dictionary<(int EventId, string Subject), Entry> _entries = [];
    private int _heldBack;

    /// <summary>Logs an event now, or holds it back until <see cref="Flush"/>, or a later event, may log it.</summary>
    /// <param name="eventId">The event's id.</param>
    /// <param name="subject">See <see cref="TryBegin"/>.</param>
    /// <param name="amount">See <see cref="TryBegin"/>.</param>
    /// <param name="write">Writes the line. Of the events that are held back together, the last one's is called.</param>
    public void Log(int eventId, string subject, long amount, Action<ThrottledEvents> write)
    {
        if (TryTake(eventId, subject, amount, write, out var events))
            write(events);
    }

    /// <summary>Logs the events of the subjects whose period is over, in their order. For an owner with a timer: otherwise an outage soon after another is not logged before the one after it.</summary>
    public void Flush()
    {
        if (Volatile.Read(ref _heldBack) == 0)
            return;
        foreach (var (write, events) in TakeDue())
            write(events);
    }

    /// <summary>Counts an event, and decides whether it may be logged now.</summary>
    /// <param name="eventId">The event's id.</param>
    /// <param name="subject">What it happened to, such as a route. Each has its own period, so there must be few: never a name that a client chooses.</param>
    /// <param name="amount">How much to add to <see cref="ThrottledEvents.Amount"/>, such as a number of batches.</param>
    /// <param name="events">The events to log: this one, and those that were held back since the last log.</param>
    /// <returns>False when the event is held back.</returns>
    public bool TryBegin(int eventId, string subject, long amount, out ThrottledEvents events) => TryTake(eventId, subject, amount, write: null, out events);

    private bool TryTake(int eventId, string subject, long amount, Action<ThrottledEvents>? write, out ThrottledEvents events)
    {
        ArgumentNullException.ThrowIfNull(subject);
        var now = timeProvider.GetTimestamp();
        lock (_lock)
        {
            var isNew = !_entries.TryGetValue((eventId, subject), out var entry);
            if (isNew)
                _entries.Add((eventId, subject), entry = new Entry());
            var isFirst = isNew || timeProvider.GetElapsedTime(entry!.HappenedAt, now) >= _period;
            entry!.HappenedAt = now;
            entry.Count++;
            entry.Amount += amount;
            events = new ThrottledEvents(entry.Count, entry.Amount, isFirst);
            if (!isNew && timeProvider.GetElapsedTime(entry.LoggedAt, now) < _period)
            {
                Hold(entry, write);
                return false;
            }

            Hold(entry, write: null);
            (entry.LoggedAt, entry.Count, entry.Amount) = (now, 0, 0);
            return true;
        }
    }

    private List<(Action<ThrottledEvents> Write, ThrottledEvents Events)> TakeDue()
    {
        var now = timeProvider.GetTimestamp();
        lock (_lock)
        {
            var due = new List<(Action<ThrottledEvents>, ThrottledEvents)>();
            var held = _entries.Where(static pair => pair.Value.Write is not null).OrderBy(static pair => pair.Value.HappenedAt).ToArray();
            // All of a subject, or the last line could be of an outage's end although another has begun.
            var subjects = held.Where(pair => timeProvider.GetElapsedTime(pair.Value.LoggedAt, now) >= _period).Select(static pair => pair.Key.Subject).ToHashSet(StringComparer.Ordinal);
            foreach (var (_, entry) in held.Where(pair => subjects.Contains(pair.Key.Subject)))
            {
                due.Add((entry.Write!, new ThrottledEvents(entry.Count, entry.Amount, IsFirst: false)));
                Hold(entry, write: null);
                (entry.LoggedAt, entry.Count, entry.Amount) = (now, 0, 0);
            }

            return due;
        }
    }

    private void Hold(Entry entry, Action<ThrottledEvents>? write)
    {
        _heldBack += (write is null ? 0 : 1) - (entry.Write is null ? 0 : 1);
        entry.Write = write;
    }

    private sealed class Entry
    {
        /// <summary>Writes the line that is held back; null while none is, or its owner has no timer.</summary>
        public Action<ThrottledEvents>? Write { get; set; }

        public long HappenedAt { get; set; }

        public long LoggedAt { get; set; }

        public long Count { get; set; }

        public long Amount { get; set; }
    }
}

/// <summary>Events of one kind that are logged together.</summary>
/// <param name="Count">How many there were since the last log.</param>
/// <param name="Amount">The sum of their amounts.</param>
/// <param name="IsFirst">True when none of the kind happened in the period before.</param>
internal readonly record struct ThrottledEvents(long Count, long Amount, bool IsFirst)
{
    /// <summary>The exception to log: only the first event is logged with its stack trace, and none whose text can't be read, because the logger would lose the line.</summary>
    public Exception? TraceOf(Exception failure) => IsFirst && FailureText.IsReadable(failure) ? failure : null;
}
