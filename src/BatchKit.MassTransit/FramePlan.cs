using BatchKit.Transports;

namespace BatchKit.MassTransit;

/// <summary>Splits a send into frames, one for each destination, and groups the frames in runs; a run starts when the one before it is confirmed.</summary>
/// <remarks>
/// A receiver drops numbers up to the last that it has seen, and a frame for all nodes reaches every node's receiver. So two frames that may reach the same
/// receiver are never sent at the same time: within a run each frame has a node of its own, and a frame for all nodes is a run by itself.
/// </remarks>
internal sealed class FramePlan
{
    private readonly Dictionary<int, PlannedFrame> _nodes = [];
    private readonly MassTransitOptions _options;

    private FramePlan(MassTransitOptions options) => _options = options;

    public List<List<PlannedFrame>> Runs { get; } = [];

    /// <summary>True when all batches fit one frame, which is nearly always so; also returns the frame's node, or null for all nodes.</summary>
    public static bool IsOneFrame(ReadOnlySpan<MessageBatch> batches, MassTransitOptions options, out int? node)
    {
        node = GetNode(batches[0], options);
        foreach (var batch in batches[1..])
        {
            if (GetNode(batch, options) != node || batch.Producer != batches[0].Producer)
                return false;
        }

        return FrameWriter.Measure(batches) <= options.MaxFrameBytes;
    }

    public static FramePlan Make(ReadOnlySpan<MessageBatch> batches, MassTransitOptions options)
    {
        var plan = new FramePlan(options);
        for (var place = 0; place < batches.Length; place++)
        {
            var batch = batches[place];
            plan.GetOrAddFrame(GetNode(batch, options), batch).Add(batch, place);
        }

        return plan;
    }

    private static int? GetNode(MessageBatch batch, MassTransitOptions options) =>
        options.DestinationNode ?? (batch.Handle.IsConnection ? batch.Handle.Node : null);

    private PlannedFrame GetOrAddFrame(int? node, MessageBatch batch)
    {
        var run = Runs.Count == 0 ? null : Runs[^1];
        var open = TryGetOpen(run, node);
        if (open is not null && open.Takes(batch, _options.MaxFrameBytes))
            return open;

        // A second frame for the same receiver, or a frame for all nodes, waits for the frames before it.
        if (run is null || open is not null || node is null || run[0].Node is null)
            run = StartRun();
        var frame = new PlannedFrame(node);
        if (node is { } number)
            _nodes[number] = frame;
        run.Add(frame);
        return frame;
    }

    private PlannedFrame? TryGetOpen(List<PlannedFrame>? run, int? node)
    {
        if (node is { } number)
            return _nodes.GetValueOrDefault(number);
        return run is not null && run[0].Node is null ? run[0] : null;
    }

    private List<PlannedFrame> StartRun()
    {
        _nodes.Clear();
        var run = new List<PlannedFrame>();
        Runs.Add(run);
        return run;
    }
}

/// <summary>A frame of the plan: its batches, their places in the send, and their node, or null for all nodes.</summary>
internal sealed class PlannedFrame(int? node)
{
    private long _bytes;

    public int? Node { get; } = node;

    public List<MessageBatch> Batches { get; } = [];

    public List<int> Places { get; } = [];

    /// <summary>True when its single batch exceeds the limit of a frame.</summary>
    public bool IsTooLarge(int maxBytes) => _bytes > maxBytes;

    public bool Takes(MessageBatch batch, int maxBytes) =>
        batch.Producer == Batches[0].Producer && _bytes + FrameWriter.Measure([batch]) <= maxBytes;

    public void Add(MessageBatch batch, int place)
    {
        _bytes += FrameWriter.Measure([batch]);
        Batches.Add(batch);
        Places.Add(place);
    }
}

/// <summary>A batch needs a frame above the limit.</summary>
internal sealed class FrameTooLargeException(int maxBytes)
    : Exception($"A batch needs a frame of more than {nameof(MassTransitOptions.MaxFrameBytes)} ({maxBytes}) bytes.");
