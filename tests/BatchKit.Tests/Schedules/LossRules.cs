namespace BatchKit.Tests.Schedules;

/// <summary>How many lost messages each wait must report: the end of a scope, those written in it; a flush of a handle, those lost since the flush before, once.</summary>
internal sealed class LossRules(World world)
{
    // Above this a handle's losses are added up, and their places are no longer exact.
    private const int MaxExactLosses = 32;

    private readonly List<LossWait> _waits = [];
    private readonly long[] _usedAt = new long[world.Schedule.Handles.Length];

    /// <summary>The handle is used. What it knew before may have been forgotten with it, if it was idle for long.</summary>
    public void Use(int handle)
    {
        ForgetWhenIdle(handle);
        _usedAt[handle] = world.Clock.GetTimestamp();
    }

    public LossWait BeginFlush(int handle)
    {
        ForgetWhenIdle(handle);
        return Begin(new LossWait($"flush of h{handle}", world.IsInsideSend, isFlush: true), message => message.Handle == handle, message => message.IsAccepted is not null);
    }

    public LossWait BeginFlushOfAll() => Begin(new LossWait("flush of all", world.IsInsideSend, isFlush: false), _ => true, _ => false);

    /// <summary>Adds what was written while the flush of all was begun.</summary>
    public static void Extend(LossWait flushOfAll, IReadOnlyList<LedgerMessage> messages) =>
        flushOfAll.Possible.AddRange(messages.Skip(flushOfAll.Possible.Count));

    /// <param name="scope">The scope that ends.</param>
    /// <param name="end">What its closing does.</param>
    public LossWait BeginEnd(OpenedScope scope, ScopeEnd end)
    {
        var isExact = end == ScopeEnd.Last && scope.IsOutermost;

        // A nested scope reports what is known to be lost. From outside that is certain only while nothing is pending.
        var reportsAll = isExact || (end != ScopeEnd.Closed && world.Buffer.GetStatistics().PendingMessages == 0);

        // Behind an ended ambient scope writes are unscoped: the batch that it waits for takes more messages until it is sent.
        var mayTakeMore = scope.Gathering is not null && scope.MayBeEndedAt != long.MaxValue;
        return Begin(
            new LossWait($"end of a scope on {scope}", world.IsInsideSend, isFlush: false) { MayTakeMore = mayTakeMore },
            message => scope.Covers(message.Handle) && (!isExact || message.DecidedAt > scope.OpenedAt),
            message => reportsAll && message.IsAccepted is not null && message.Start > scope.OpenedAt && message.DecidedAt < scope.MayBeEndedAt
                && (scope.Gathering is null || scope.Gathering == message.Gathering));
    }

    /// <summary>A latest value is settled in the place of an older one.</summary>
    public void Supersede(LedgerMessage latest, LedgerMessage older)
    {
        foreach (var wait in _waits)
        {
            var list = wait.Certain.Contains(older) ? wait.Certain : wait.Possible;
            if (list.Contains(older) && !wait.Certain.Contains(latest) && !wait.Possible.Contains(latest))
                list.Add(latest);
        }
    }

    public void End(LossWait wait, Exception? failure)
    {
        _waits.Remove(wait);
        var reported = (failure as OutputDeliveryException)?.LostMessages ?? 0;
        if (!wait.IsInsideSend && world.Ledger.Messages.Count(world.Ledger.IsLost) <= MaxExactLosses)
            Check(wait, reported);
        foreach (var message in wait.Possible)
            message.IsReported = message.IsReported == true ? true : null;
        foreach (var message in wait.Certain.Where(world.Ledger.IsLost))
            message.IsReported = wait.IsInsideSend && message.IsReported != true ? null : true;
    }

    private LossWait Begin(LossWait wait, Func<LedgerMessage, bool> covers, Func<LedgerMessage, bool> isCertain)
    {
        foreach (var message in world.Ledger.Messages.Where(covers))
            (isCertain(message) ? wait.Certain : wait.Possible).Add(message);
        foreach (var other in _waits)
            other.IsOverlapped = wait.IsOverlapped = true;
        _waits.Add(wait);
        return wait;
    }

    // Two waits that overlap may both report a loss of that time.
    private void Check(LossWait wait, long reported)
    {
        var lost = wait.Certain.Where(world.Ledger.IsLost).ToList();
        var least = lost.Count(message => !wait.IsFlush || (!wait.IsOverlapped && message.IsReported == false));
        var most = lost.Count(message => !wait.IsFlush || wait.IsOverlapped || message.IsReported != true) + wait.Possible.Count(world.Ledger.IsLost);
        if (reported < least || (reported > most && !wait.MayTakeMore))
            world.Journal.Broken($"the {wait} reported {reported} lost messages; there are {least} to {most}: {string.Join(' ', lost.Select(message => message.Id))}");
    }

    // The watch gives up a handle that was idle for so long, and with it what it knew; the coarse clock may be early by a part of that.
    private void ForgetWhenIdle(int handle)
    {
        if (world.Clock.GetElapsedTime(_usedAt[handle]) < world.Schedule.Options.HandleIdleTimeout / 2)
            return;
        foreach (var message in world.Ledger.Messages.Where(message => message.Handle == handle && message.IsReported == false))
            message.IsReported = null;
    }
}

/// <summary>A flush or the end of a scope whose caller waits, or may wait.</summary>
internal sealed class LossWait(string name, bool isInsideSend, bool isFlush)
{
    /// <summary>True for a flush of a handle, which reports no loss that was reported before it.</summary>
    public bool IsFlush => isFlush;

    /// <summary>True when it completes at once, and reports what is known by then.</summary>
    public bool IsInsideSend => isInsideSend;

    public bool IsOverlapped { get; set; }

    /// <summary>True when it may also report messages that were written after it began.</summary>
    public bool MayTakeMore { get; init; }

    /// <summary>What it must report when it is lost.</summary>
    public List<LedgerMessage> Certain { get; } = [];

    /// <summary>What it may report as well.</summary>
    public List<LedgerMessage> Possible { get; } = [];

    public override string ToString() => name;
}
