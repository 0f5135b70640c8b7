using BatchKit.Chaos.Faults;

namespace BatchKit.Chaos.Histories;

/// <summary>Where messages go, and on which nodes they have to arrive.</summary>
/// <param name="Name">The connection, group or key.</param>
/// <param name="Nodes">The nodes that each get it once; empty for a queue, where any one worker gets it.</param>
internal sealed record Target(string Name, IReadOnlyList<int> Nodes)
{
    public bool IsForAnyNode => Nodes.Count == 0;

    public bool IsGroup => Nodes.Count > 1;
}

/// <summary>What one process recorded from its start to its end.</summary>
/// <param name="Name">The node's name, which its processes share.</param>
/// <param name="Node">The node's number, which they share too.</param>
/// <param name="Version">Which of the node's processes it is; 1 for the first.</param>
/// <param name="Targets">What it writes to.</param>
/// <param name="Events">Its lines.</param>
internal sealed record NodeHistory(string Name, int Node, int Version, IReadOnlyList<Target> Targets, IReadOnlyList<HistoryEvent> Events)
{
    /// <summary>When the process was killed or told to end; null for one that was not.</summary>
    public long? EndBegan { get; init; }

    /// <summary>Whether it was killed.</summary>
    public bool WasKilled { get; init; }

    /// <summary>Reads a file. A last line without an end was cut by a kill, and does not count.</summary>
    public static IReadOnlyList<HistoryEvent> ReadEvents(string path)
    {
        using var file = new StreamReader(new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite));
        var lines = file.ReadToEnd().Split('\n');
        return [.. lines.SkipLast(1).Select(HistoryEvent.Parse)];
    }

    public override string ToString() => $"{Name}.{Version}";
}

/// <summary>All that happened in a run: what each process recorded, and the faults that were made.</summary>
/// <param name="Began">The time that failure messages count from.</param>
/// <param name="Processes">The processes, those of one node in the order of their versions.</param>
/// <param name="Faults">The faults.</param>
internal sealed record RunHistory(long Began, IReadOnlyList<NodeHistory> Processes, IReadOnlyList<MadeFault> Faults);
