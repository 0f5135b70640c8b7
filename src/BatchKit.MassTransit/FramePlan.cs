using System.Runtime.InteropServices;
using BatchKit.Transports;

namespace BatchKit.MassTransit;

/// <summary>Splits a send into frames, one for each destination, in runs that must be confirmed one after the other.</summary>
/// <remarks>
/// A receiver drops numbers up to the last that it saw, and a frame for all nodes reaches the receivers of single nodes too. So two frames that may
/// meet at one receiver are never under way together: within a run each frame has a node of its own, and a frame for all nodes is a run by itself.
/// </remarks>
internal sealed class FramePlan
{
    private readonly Dictionary<int, PlannedFrame> _nodes = [];
    private readonly int? _destinationNode;

    private FramePlan(int? destinationNode) => _destinationNode = destinationNode;

    public List<List<PlannedFrame>> Runs { get; } = [];

    /// <summary>True, and the destination, when all batches fit one frame: nearly always.</summary>
    public static bool IsOneFrame(ReadOnlySpan<MessageBatch> batches, int? destinationNode, out int? node)
    {
        node = GetNode(batches[0], destinationNode);
        foreach (var batch in batches[1..])
        {
            if (GetNode(batch, destinationNode) != node || batch.Producer != batches[0].Producer)
                return false;
        }

        return true;
    }

    public static FramePlan Make(ReadOnlySpan<MessageBatch> batches, int? destinationNode)
    {
        var plan = new FramePlan(destinationNode);
        for (var place = 0; place < batches.Length; place++)
            plan.Add(batches[place], place);
        return plan;
    }

    private static int? GetNode(MessageBatch batch, int? destinationNode) =>
        destinationNode ?? (batch.Handle.IsConnection ? batch.Handle.Node : null);

    private void Add(MessageBatch batch, int place)
    {
        var frame = GetFrame(GetNode(batch, _destinationNode), batch.Producer);
        frame.Batches.Add(batch);
        frame.Places.Add(place);
    }

    private PlannedFrame GetFrame(int? node, ProducerId producer)
    {
        var last = Runs.Count == 0 ? null : Runs[^1];
        if (last is not null && node is null && last[0].Node is null && last[0].Batches[0].Producer == producer)
            return last[0];
        if (last is null || node is null || last[0].Node is null)
            last = StartRun();

        if (node is not { } number)
        {
            var toAll = new PlannedFrame(node: null);
            last.Add(toAll);
            return toAll;
        }

        ref var frame = ref CollectionsMarshal.GetValueRefOrAddDefault(_nodes, number, out var exists);
        if (exists && frame!.Batches[0].Producer == producer)
            return frame;
        if (exists)
        {
            last = StartRun();
            frame = ref CollectionsMarshal.GetValueRefOrAddDefault(_nodes, number, out _);
        }

        frame = new PlannedFrame(number);
        last.Add(frame);
        return frame;
    }

    private List<PlannedFrame> StartRun()
    {
        _nodes.Clear();
        var run = new List<PlannedFrame>();
        Runs.Add(run);
        return run;
    }
}
