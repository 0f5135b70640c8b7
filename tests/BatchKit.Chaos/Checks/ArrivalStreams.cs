using BatchKit.Chaos.Histories;

namespace BatchKit.Chaos.Checks;

/// <summary>Follows the order of what arrives at one node. A client sees the output of its connection and of its groups, so these are a stream; output of different connections has no order.</summary>
internal sealed class ArrivalStreams
{
    // The newest number of each writer's process and target: among first arrivals at the node, and among all at the process that receives now.
    private readonly Dictionary<(NodeHistory Writer, Target Target), long> _first = [];
    private readonly Dictionary<(NodeHistory Writer, Target Target), long> _current = [];
    private readonly HashSet<MessageId> _seen = [];
    private NodeHistory? _process;

    /// <summary>Takes the next arrival; returns what is wrong with its place, and null when nothing is.</summary>
    public string? Add(MessageStory story, Arrival arrival)
    {
        if (!ReferenceEquals(_process, arrival.At))
            _current.Clear();
        _process = arrival.At;
        var isFirst = _seen.Add(story.Id);
        // A repeat follows the order of its own process, and a first arrival that of all.
        var reason = FindNewer(_current, story) is { } newer ? $"it arrived at {arrival.At} behind {newer}"
            : isFirst && FindNewer(_first, story) is { } earlier ? $"it arrived first at {arrival.At}, and {earlier} had arrived at node {arrival.At.Node} before"
            : null;
        Advance(_current, story);
        if (isFirst)
            Advance(_first, story);
        return reason;
    }

    private static long? FindNewer(Dictionary<(NodeHistory Writer, Target Target), long> newest, MessageStory story)
    {
        foreach (var target in story.Writer.Targets)
        {
            if ((target == story.Target || target.IsGroup || story.Target.IsGroup) && newest.TryGetValue((story.Writer, target), out var number) && number > story.Id.Number)
                return number;
        }

        return null;
    }

    private static void Advance(Dictionary<(NodeHistory Writer, Target Target), long> newest, MessageStory story)
    {
        var key = (story.Writer, story.Target);
        newest[key] = Math.Max(newest.GetValueOrDefault(key), story.Id.Number);
    }
}
