using System.Diagnostics;
using BatchKit.Chaos.Faults;
using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Checks;

/// <summary>A rule that a history breaks.</summary>
/// <param name="Rule">The rule, in a word or two.</param>
/// <param name="What">What is wrong.</param>
/// <param name="Story">The message; null for a rule about a process.</param>
/// <param name="Time">Where in the run it is.</param>
internal sealed record Violation(string Rule, string What, MessageStory? Story, long Time);

/// <summary>Checks the history of a run, after everything has been healed and has come to rest, against a guarantee.</summary>
internal sealed class HistoryChecker
{
    private static readonly long FailureTicks = 10 * Stopwatch.Frequency;

    private readonly Guarantee _guarantee;
    private readonly RunHistory _run;
    private readonly MessageStories _stories;

    public HistoryChecker(Guarantee guarantee, RunHistory run)
    {
        _guarantee = guarantee;
        _run = run;
        _stories = new MessageStories(run);
        Missing = [.. _stories.All.Where(story => story.IsAcknowledged).SelectMany(FindMissing)];
    }

    /// <summary>Acknowledged messages that have not arrived.</summary>
    public IReadOnlyList<Violation> Missing { get; }

    public MessageStories Stories => _stories;

    /// <summary>Everything that the guarantee forbids, in the order of time.</summary>
    public IReadOnlyList<Violation> Check()
    {
        var doubling = _guarantee.Doubling == Doubling.WhenClaimLost ? FindHandledAgain() : FindDoubled();
        var order = _guarantee.OrderedWithGroups ? FindReordered() : FindReorderedByTarget();
        return [.. FindInvented().Concat(Missing).Concat(doubling).Concat(order).Concat(FindUnsettled()).Concat(_run.Processes.SelectMany(new Conservation(_stories).Find)).OrderBy(violation => violation.Time)];
    }

    private IEnumerable<Violation> FindInvented() =>
        _stories.Unknown.Select(arrival => new Violation("invented", $"{arrival.Event.Message} arrived at {arrival.At}, and no process was about to write it", null, arrival.Event.Time))
            .Concat(from story in _stories.All
                    where !story.Target.IsForAnyNode
                    from arrival in story.Arrivals
                    where !story.Target.Nodes.Contains(arrival.At.Node)
                    select new Violation("misdirected", $"it arrived at {arrival.At}, and is for {story.Target.Name}", story, arrival.Event.Time));

    private static IEnumerable<Violation> FindMissing(MessageStory story)
    {
        string[] missing = story.Target.IsForAnyNode
            ? story.Arrivals.Count == 0 ? ["any node"] : []
            : [.. story.Target.Nodes.Where(node => !story.Arrivals.Exists(arrival => arrival.At.Node == node)).Select(node => $"node {node}")];
        return missing.Select(node => new Violation("lost", $"it was acknowledged, and did not arrive at {node}", story, story.Settled!.Time));
    }

    private IEnumerable<Violation> FindDoubled() =>
        from story in _stories.All
        where story.Arrivals.Count > 1
        from arrivals in story.Arrivals.GroupBy(arrival => arrival.At.Node)
        from pair in arrivals.Zip(arrivals.Skip(1))
        let reason = WhyNotRepeatable(story, pair.First, pair.Second)
        where reason is not null
        select new Violation("doubled", reason, story, pair.Second.Event.Time);

    private string? WhyNotRepeatable(MessageStory story, Arrival first, Arrival second)
    {
        if (first.At == second.At)
            return $"it arrived twice at {first.At}";
        if (first.At.EndBegan is null)
            return $"it arrived at {first.At} and at {second.At}, and {first.At} did not end";

        // What the process that ended had not acknowledged is the last that it received from that writer.
        var later = _stories.Received[first.At].Skip(first.Place + 1).FirstOrDefault(other => other.Story.Writer == story.Writer
            && other.Story.Arrivals.TrueForAll(arrival => arrival.At.Node != first.At.Node || arrival.At.Version <= first.At.Version) && !MayBeForgotten(other.Story, first, second));
        return later.Story is null ? null : $"it arrived at {first.At} and at {second.At}, and {later.Story.Id}, which arrived behind it at {first.At}, did not";
    }

    // A broker that is killed forgets what it delivered and had not confirmed yet, and may keep what lay before it on its disk.
    private bool MayBeForgotten(MessageStory story, Arrival first, Arrival second) => _run.Faults.Any(made => made.Fault.Kind == FaultKind.KillBroker
        && IsBetween(made, first, second) && (!story.IsAcknowledged || story.Settled!.Time >= made.Began));

    private IEnumerable<Violation> FindHandledAgain() =>
        from story in _stories.All
        where story.Arrivals.Count > 1
        let inTime = story.Arrivals.OrderBy(arrival => arrival.Event.Time).ToArray()
        from pair in inTime.Zip(inTime.Skip(1))
        let reason = pair.First.Event.Row != pair.Second.Event.Row ? $"it was stored twice, as {pair.First.Event.Row} and {pair.Second.Event.Row}"
            : !HasFault(pair.First, pair.Second) ? $"it was handled by {pair.First.At} and {pair.Second.At}, and no fault met these or the server" : null
        where reason is not null
        select new Violation("doubled", reason, story, pair.Second.Event.Time);

    // The worker whose claim was lost may be the one that handles it last: the answer to its claim was delayed.
    private bool HasFault(Arrival first, Arrival second) => _run.Faults.Any(made =>
        (made.Fault.Target == Fault.Broker || made.Fault.Target == first.At.Name || made.Fault.Target == second.At.Name)
        && IsBetween(made, first, second, EffectOf(made.Fault.Kind)));

    private static bool IsBetween(MadeFault made, Arrival first, Arrival second, long effect = 0) => made.Began <= second.Event.Time && made.Ended + effect >= first.Event.Time;

    // A cut waits for its byte, and silence for a time limit; a claim that is lost meanwhile ends by itself.
    private static long EffectOf(FaultKind kind) => Stopwatch.Frequency * (kind is FaultKind.CutConnection or FaultKind.SilenceConnections ? 10 : 2);

    private IEnumerable<Violation> FindReordered() =>
        from node in _stories.Received.GroupBy(received => received.Key.Node)
        let streams = new ArrivalStreams()
        from received in node.OrderBy(received => received.Key.Version)
        from each in received.Value
        let reason = streams.Add(each.Story, each.Arrival)
        where reason is not null
        select new Violation("reordered", reason, each.Story, each.Arrival.Event.Time);

    private IEnumerable<Violation> FindReorderedByTarget()
    {
        foreach (var stories in _stories.All.Where(story => story.Arrivals.Count > 0).GroupBy(story => (story.Writer, story.Target)))
        {
            MessageStory? before = null;
            foreach (var story in stories.OrderBy(story => story.Arrivals.Min(arrival => arrival.Event.Time)).ThenBy(story => story.Id.Number))
            {
                if (before is not null && before.Id.Number > story.Id.Number)
                    yield return new Violation("reordered", $"it arrived behind {before.Id.Number}, which was written later to the same target", story, story.Arrivals.Min(arrival => arrival.Event.Time));
                else
                    before = story;
            }
        }
    }

    private IEnumerable<Violation> FindUnsettled()
    {
        foreach (var story in _stories.All.Where(story => story.Accepted is not null))
        {
            if (story.Settled is { Lost: > 0 } lost && !MayFail(story, lost))
                yield return new Violation("given up", "it was reported as lost while its process ran", story, lost.Time);
            else if (story.Settled is null && !story.Writer.WasKilled)
                yield return new Violation("unsettled", "it was accepted, and its process ended normally without telling what became of it", story, story.Accepted!.Time);
        }
    }

    // What the fault met was written before its end, and told of soon after.
    private bool MayFail(MessageStory story, Settled lost) => story.Writer.EndBegan <= lost.Time || _run.Faults.Any(fault =>
        _guarantee.Failing.Contains(fault.Fault.Kind) && fault.Began <= lost.Time && story.About.Time <= fault.Ended && lost.Time <= fault.Ended + FailureTicks);
}
