using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Postgres.Frames;

/// <summary>The rows of an outbox whose sends fail alone. Used by one batch at a time, except the description.</summary>
internal sealed class FailingRows(TimeProvider timeProvider)
{
    /// <summary>How long such a row is retried before it is moved to the dead table, if the transport accepts others meanwhile: as long as a receiver, by default, retries batches that its next hop does not take.</summary>
    public static readonly TimeSpan Limit = NewerFrames.Limit;

    public static readonly RetrySchedule Schedule = new(TimeSpan.FromMilliseconds(100), TimeSpan.FromSeconds(5));

    // So many, without one that is accepted, are no bad rows, but a transport that accepts nothing. A buffer's partition gives up as many one by one.
    private const int MaxUnproven = 4;

    private readonly Dictionary<long, FailingRow> _rows = [];
    private volatile string? _description;

    /// <summary>Which row waits while others leave; null when none does.</summary>
    public string? Description => _description;

    /// <summary>True when it is unknown of one of them whether the row is the cause, or the transport accepts nothing.</summary>
    public bool HasUnproven => _rows.Values.Any(static row => !row.IsProven);

    public bool Contains(StoredRow row) => _rows.ContainsKey(row.Id);

    /// <summary>True when another batch was accepted after it had failed alone.</summary>
    public bool IsProven(StoredRow row) => _rows[row.Id].IsProven;

    /// <summary>True when another batch was accepted after its last failure: a transport that was down meanwhile proves nothing.</summary>
    public bool HasAccepted(StoredRow row) => _rows[row.Id].HasAccepted;

    public bool IsOverdue(StoredRow row) => timeProvider.GetElapsedTime(_rows[row.Id].Since) >= Limit;

    /// <summary>Adds a row; false when the transport seems to accept nothing.</summary>
    public bool TryAdd(StoredRow row, Exception failure)
    {
        if (_rows.Values.Count(static row => !row.IsProven) >= MaxUnproven)
            return false;
        _rows.Add(row.Id, new FailingRow { Since = timeProvider.GetTimestamp() });
        Failed(row, failure);
        return true;
    }

    /// <summary>It failed alone, and is due after a pause.</summary>
    public (int Attempts, TimeSpan Pause) Failed(StoredRow row, Exception failure)
    {
        var failing = _rows[row.Id];
        failing.Pause = Schedule.DelayAfter(++failing.Attempts, Random.Shared);
        (failing.FailedAt, failing.HasAccepted, failing.Reason) = (timeProvider.GetTimestamp(), false, FailureText.MessageOf(failure));
        Describe();
        return (failing.Attempts, failing.Pause);
    }

    /// <summary>The transport has accepted another batch.</summary>
    public void Prove()
    {
        foreach (var row in _rows.Values)
            row.IsProven = row.HasAccepted = true;
        Describe();
    }

    public void Remove(StoredRow row)
    {
        _rows.Remove(row.Id);
        Describe();
    }

    /// <summary>Forgets the rows that are not in the claim: another process has settled them.</summary>
    public void KeepThoseOf(IReadOnlyList<StoredRow> claimed)
    {
        if (_rows.Count == 0)
            return;
        var ids = claimed.Select(static row => row.Id).ToHashSet();
        foreach (var id in _rows.Keys.Where(id => !ids.Contains(id)))
            _rows.Remove(id);
        Describe();
    }

    public StoredRow[] DueOf(IReadOnlyList<StoredRow> claimed) =>
        _rows.Count == 0 ? [] : [.. claimed.Where(row => _rows.TryGetValue(row.Id, out var failing) && Left(failing) <= TimeSpan.Zero)];

    /// <summary>The time until the next one is due; zero when there is none.</summary>
    public TimeSpan TimeToNext() => _rows.Count == 0 ? TimeSpan.Zero : _rows.Values.Min(Left) is var left && left > TimeSpan.Zero ? left : TimeSpan.Zero;

    private TimeSpan Left(FailingRow row) => row.Pause - timeProvider.GetElapsedTime(row.FailedAt);

    private void Describe()
    {
        var (id, row) = _rows.FirstOrDefault(static row => row.Value.IsProven);
        _description = row is null
            ? null
            : $"Row {id} waits, and what must not pass it: each send that has it fails ({row.Reason}). When that lasts for {Limit}, it is moved to the dead table.";
    }

    private sealed class FailingRow
    {
        public long Since { get; init; }

        public long FailedAt { get; set; }

        public TimeSpan Pause { get; set; }

        public string? Reason { get; set; }

        public int Attempts { get; set; }

        public bool IsProven { get; set; }

        public bool HasAccepted { get; set; }
    }
}
