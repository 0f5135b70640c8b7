namespace BatchKit.Tests.Schedules;

/// <summary>Which scopes may be open, as far as that is known from outside: an end of the youngest scope on a handle, or of a scope that is too old, may have closed any.</summary>
internal sealed class ScopeBook(Schedule schedule, Ledger ledger, TimeProvider clock)
{
    private readonly AsyncLocal<Gathering?> _current = new();
    private readonly List<OpenedScope> _all = [];
    private readonly List<OpenedScope> _open = [];
    private readonly List<Gathering> _gatherings = [];

    // A transport may write while what was written before a scope is sent by its opening.
    private readonly List<int> _opening = [];

    public IReadOnlyList<OpenedScope> All => _all;

    /// <summary>The calling flow's ambient scope.</summary>
    public Gathering? Current => _current.Value is { IsOpen: true } gathering ? gathering : null;

    public bool MayHold(int handle) => _opening.Contains(handle) || _open.Exists(scope => scope.Covers(handle));

    public OpenedScope Open(int handle, TimeSpan? maxHold, Func<BufferingScope> open)
    {
        var isOutermost = !MayHold(handle);
        var (openedAt, begun) = (ledger.Now, clock.GetTimestamp());
        _opening.Add(handle);
        BufferingScope opened;
        try
        {
            opened = open();
        }
        finally
        {
            _opening.Remove(handle);
        }

        var scope = Add(new OpenedScope(opened, handle, maxHold, gathering: null, isOutermost, openedAt, clock.GetTimestamp()));

        // A transport may block the send of what was written before for longer than a scope lasts.
        if (!scope.HasLimit && clock.GetElapsedTime(begun) >= schedule.Options.MaxScopeAge * 3 / 4)
            scope.MayBeEndedAt = openedAt;
        ForEachOpenGathering(gathering => gathering.HasLimit, gathering => gathering.Disturb(handle));
        return scope;
    }

    /// <summary>A writer is being opened: <see cref="Open"/> follows.</summary>
    public void BeginOpening(int handle) => _opening.Add(handle);

    public OpenedScope EndOpening(int handle)
    {
        _opening.Remove(handle);
        return Open(handle, maxHold: null, static () => default);
    }

    public OpenedScope OpenAmbient(TimeSpan? maxHold, Func<BufferingScope> open)
    {
        var gathering = Current;
        var isOutermost = gathering is null && _open.Count == 0;
        var openedAt = ledger.Now;
        var opened = open();
        if (gathering is null)
        {
            _current.Value = gathering = new Gathering(maxHold, clock.GetTimestamp());
            _gatherings.Add(gathering);
        }

        return Add(new OpenedScope(opened, handle: null, gathering.MaxHold, gathering, isOutermost, openedAt, clock.GetTimestamp()));
    }

    /// <summary>A scope is about to be closed.</summary>
    /// <returns>Whether it was closed before; if not, whether it is certainly the last one that covers its handle, or any.</returns>
    public ScopeEnd Close(OpenedScope scope)
    {
        if (scope.IsClosed)
            return ScopeEnd.Closed;
        scope.IsClosed = true;
        _open.Remove(scope);

        // Until now it held the handle's output back when the limit of an ambient scope sent the rest.
        if (scope.Handle is { } freed)
            ForEachOpenGathering(gathering => gathering.HasLimit, gathering => gathering.Disturb(freed));
        var isLast = !_open.Exists(other => scope.Handle is not { } handle || other.Covers(handle));
        var end = isLast ? ScopeEnd.Last : ScopeEnd.Nested;
        if (scope.Gathering is not { } gathering || _open.Exists(other => other.Gathering == gathering))
            return end;
        gathering.IsOpen = false;

        // Its scope on a handle opened at the first write to that, and may have ended there since by its age.
        var isOld = clock.GetElapsedTime(gathering.OpenedTimestamp) >= schedule.Options.MaxScopeAge * 3 / 4;
        if (isOld || _open.Exists(other => other.Handle is null))
            gathering.DisturbAll();
        foreach (var other in _open.Where(other => other.Handle is not null))
            gathering.Disturb(other.Handle!.Value);
        return end;
    }

    /// <summary>Time is about to pass: scopes may be too old then.</summary>
    public void PassTime(TimeSpan time)
    {
        foreach (var scope in _open.Where(scope => !scope.HasLimit && clock.GetElapsedTime(scope.OpenedTimestamp) + time >= schedule.Options.MaxScopeAge * 3 / 4))
            scope.MayBeEndedAt = Math.Min(scope.MayBeEndedAt, ledger.Now);
    }

    /// <summary>Whatever no scope can hold back any more is queued.</summary>
    public void QueueUnheld() => ledger.Queue(handle => !MayHold(handle));

    /// <summary>The youngest scope on a handle was closed, whichever that was.</summary>
    public void CloseYoungest(int handle, Func<bool> end)
    {
        var begun = ledger.Now;
        var wasOpen = end();
        foreach (var scope in _open.Where(scope => scope.Covers(handle)))
            scope.MayBeEndedAt = Math.Min(scope.MayBeEndedAt, begun);
        if (!wasOpen)
            _open.RemoveAll(scope => scope.Handle == handle);
        Disturb(handle);
        QueueUnheld();
    }

    /// <summary>The handle's output leaves, whatever scopes are open; null for all handles.</summary>
    public void Disturb(int? handle) => ForEachOpenGathering(_ => true, gathering =>
    {
        if (handle is { } one)
            gathering.Disturb(one);
        else
            gathering.DisturbAll();
    });

    /// <summary>A message is about to be written by the calling flow.</summary>
    public void BeginWrite(int handle)
    {
        var current = Current;
        ForEachOpenGathering(gathering => gathering.HasLimit && gathering != current, gathering => gathering.Disturb(handle));
    }

    /// <summary>No scope is open on any handle.</summary>
    public void ForgetHandleScopes()
    {
        foreach (var scope in _open.Where(scope => scope.Handle is not null))
            scope.MayBeEndedAt = Math.Min(scope.MayBeEndedAt, ledger.Now);
        _open.RemoveAll(scope => scope.Handle is not null);
        ledger.Queue(_ => true);
    }

    private OpenedScope Add(OpenedScope scope)
    {
        _all.Add(scope);
        _open.Add(scope);
        return scope;
    }

    private void ForEachOpenGathering(Func<Gathering, bool> which, Action<Gathering> act)
    {
        foreach (var gathering in _gatherings)
        {
            if (gathering.IsOpen && which(gathering))
                act(gathering);
        }
    }
}

/// <summary>What closing a scope did, as far as that is known.</summary>
internal enum ScopeEnd
{
    /// <summary>Nothing: it was closed before.</summary>
    Closed,

    /// <summary>Others may hold its output back.</summary>
    Nested,

    /// <summary>No other holds its output back.</summary>
    Last,
}

/// <summary>A scope that was opened, and what is known of it.</summary>
internal sealed class OpenedScope(BufferingScope scope, int? handle, TimeSpan? maxHold, Gathering? gathering, bool isOutermost, long openedAt, long openedTimestamp)
{
    public BufferingScope Scope { get; } = scope;

    /// <summary>Null for an ambient scope.</summary>
    public int? Handle { get; } = handle;

    public Gathering? Gathering { get; } = gathering;

    public bool HasLimit => maxHold is not null;

    public TimeSpan MaxHold => maxHold ?? TimeSpan.Zero;

    /// <summary>True when no other scope covered its handle, or any, when it was opened.</summary>
    public bool IsOutermost { get; } = isOutermost;

    /// <summary>When it was opened, in the ledger's time.</summary>
    public long OpenedAt { get; } = openedAt;

    /// <summary>When it was opened, by the clock.</summary>
    public long OpenedTimestamp { get; } = openedTimestamp;

    /// <summary>True once an actor has closed it, or a copy.</summary>
    public bool IsClosed { get; set; }

    /// <summary>From when on it may have been ended by something else, in the ledger's time.</summary>
    public long MayBeEndedAt { get; set; } = long.MaxValue;

    /// <summary>Whether it may hold the handle's output back: an ambient one may hold any.</summary>
    public bool Covers(int other) => Handle is null || Handle == other;

    public override string ToString() => Handle is { } one ? $"h{one}" : "all that its flow writes to";
}

/// <summary>What one flow's ambient scopes gather, from the opening of the outermost one until the last is closed.</summary>
internal sealed class Gathering(TimeSpan? maxHold, long openedTimestamp)
{
    private readonly HashSet<int> _disturbed = [];
    private bool _isDisturbed;

    public bool IsOpen { get; set; } = true;

    /// <summary>When its outermost scope was opened, by the clock.</summary>
    public long OpenedTimestamp => openedTimestamp;

    public TimeSpan? MaxHold => maxHold;

    public bool HasLimit => maxHold is not null;

    /// <summary>What was delivered of it on each route.</summary>
    public LatestStarts[] OnRoutes { get; } = [new(), new()];

    /// <summary>True when what it gathered for the handle left with all the rest, in the order in which it was written.</summary>
    public bool IsUndisturbed(int handle) => !_isDisturbed && !_disturbed.Contains(handle);

    public void Disturb(int handle) => _disturbed.Add(handle);

    public void DisturbAll() => _isDisturbed = true;
}
