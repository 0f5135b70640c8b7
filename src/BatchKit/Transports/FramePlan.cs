using System.Collections.Immutable;
using System.Diagnostics;
using System.Globalization;
using System.Runtime.InteropServices;
using BatchKit.Diagnostics;

namespace BatchKit.Transports;

/// <summary>Divides a send's batches into the fewest frames that keep the order of every receiver.</summary>
/// <remarks>
/// A receiver drops numbers that do not rise, so the numbers that one receiver gets must rise over all frames. The frames before a frame to all nodes
/// are therefore complete: behind it, output for each node goes into new frames.
/// </remarks>
public static class FramePlan
{
    // What several groups have in one frame: a node with members of only one of them also reads, and discards, the rest. A frame costs the broker, for each queue that it reaches, as much as some 60 KB in a frame that
    // reaches the queue anyway (benchmarks/results/scale.md).
    private const int MaxSharedBytes = 64 * 1024;

    /// <summary>Plans the frames of one send, in the order in which they must be published.</summary>
    /// <param name="batches">The batches of the send.</param>
    /// <param name="maxFrameBytes">The most bytes in a frame. A single batch that takes more, or that can't be encoded, has a frame of its own, for the transport to refuse.</param>
    /// <param name="destinationNode">When given, the node that all output goes to; see <see cref="FrameDestination.Of"/>.</param>
    /// <param name="signer">What signs the frames, which takes <see cref="FrameSigner.OverheadBytes"/> of each; null for none.</param>
    /// <param name="byMembers">True where the transport can reach the nodes with members of some groups: then output for named handles goes to those (<see cref="FrameDestination.Members"/>) instead of
    /// all nodes. A frame has output of several groups only up to 64 KiB, so that nodes get little that is not for them; a frame with more than 256 groups goes to all nodes, and has no such limit.</param>
    public static IReadOnlyList<PlannedFrame> Create(
        ReadOnlyMemory<MessageBatch> batches, int maxFrameBytes, int? destinationNode, FrameSigner? signer = null, bool byMembers = false)
    {
        var trace = BatchKitTracing.RecordedContext;
        maxFrameBytes -= (signer is null ? 0 : FrameSigner.OverheadBytes) + FrameWriter.TraceBytes(trace);
        if (batches.IsEmpty)
            return [];
        var destination = FrameDestination.Of(batches.Span[0].Handle, destinationNode, byMembers);
        return FitsOneFrame(batches.Span, destination, maxFrameBytes, destinationNode)
            ? [new PlannedFrame(destination, batches, trace)]
            : Split(batches.Span, maxFrameBytes, destinationNode, byMembers, trace);
    }

    /// <summary>Counts the frames from one on that have no receiver in common, so that they may be published side by side; the next one behind them waits for their answers.</summary>
    /// <param name="frames">The frames of a send.</param>
    /// <param name="first">The index of the first one.</param>
    public static int CountApart(IReadOnlyList<PlannedFrame> frames, int first)
    {
        ArgumentNullException.ThrowIfNull(frames);
        var receivers = new FrameReceivers();
        var index = first;
        for (; index < frames.Count && !receivers.Overlap(frames[index].Destination); index++)
            receivers.Add(frames[index].Destination);
        return index - first;
    }

    private static bool FitsOneFrame(ReadOnlySpan<MessageBatch> batches, FrameDestination destination, int maxFrameBytes, int? destinationNode)
    {
        var first = batches[0];
        var (bytes, messages) = (0L, 0L);
        foreach (var batch in batches)
        {
            bytes += Measure(batch);
            messages += batch.Count;
            if (batch.Producer != first.Producer || bytes > maxFrameBytes || messages > FrameLimits.Shared.MaxMessages)
                return false;
            // Several groups may fit one frame too; Split counts them.
            if (destination == FrameDestination.Members ? batch.Handle != first.Handle : FrameDestination.Of(batch.Handle, destinationNode) != destination)
                return false;
        }

        return batches.Length <= FrameLimits.Shared.MaxBatches;
    }

    private static List<PlannedFrame> Split(ReadOnlySpan<MessageBatch> batches, int maxFrameBytes, int? destinationNode, bool byMembers, ActivityContext trace)
    {
        var frames = new List<PlannedFrame>();
        // The last frame to each node behind the last one to all.
        var open = new Dictionary<FrameDestination, PlannedFrame>();
        for (var place = 0; place < batches.Length; place++)
        {
            var batch = batches[place];
            var bytes = Measure(batch);
            var destination = FrameDestination.Of(batch.Handle, destinationNode, byMembers);
            var frame = destination.IsAll ? LastToAll(frames, destination) : open.GetValueOrDefault(destination);
            if (frame is null || frame.Producer != batch.Producer || frame.Bytes + bytes > LimitWith(frame, batch, maxFrameBytes) || frame.IsFullFor(batch))
            {
                frame = new PlannedFrame(destination, trace);
                frames.Add(frame);
                if (destination.IsAll)
                    open.Clear();
                else
                    open[destination] = frame;
            }

            frame.Add(batch, place, bytes);
        }

        return frames;
    }

    // The most bytes that a frame may have with one more batch.
    private static int LimitWith(PlannedFrame frame, MessageBatch batch, int maxFrameBytes)
    {
        var isShared = frame.Groups.Count > 1 || (frame.Groups.Count == 1 && !frame.Groups.Contains(batch.Handle.Name!));
        return isShared ? Math.Min(maxFrameBytes, MaxSharedBytes) : maxFrameBytes;
    }

    // What can't be encoded, such as a header with a text that is too long, has a frame of its own like a batch that is too large, so it harms no other.
    private static int Measure(MessageBatch batch)
    {
        try
        {
            return FrameWriter.Measure([batch]);
        }
        catch (ArgumentException)
        {
            return int.MaxValue;
        }
    }

    // Each frame shares a receiver with it, so only the last one may still grow: when it has the same destination, or goes to all because of its many groups.
    private static PlannedFrame? LastToAll(List<PlannedFrame> frames, FrameDestination destination) =>
        frames is [.., var last] && (last.Destination == destination || (last.Destination == FrameDestination.All && destination == FrameDestination.Members)) ? last : null;
}

/// <summary>The batches of a send that travel together: all for one destination, of one producer, with rising numbers. <see cref="FramePlan"/> creates it.</summary>
/// <remarks>Valid as long as the send's batches are: until its task has ended.</remarks>
public sealed class PlannedFrame
{
    // A broker gets the groups' names beside the frame. So many groups have members almost everywhere, and output for more of them goes to all nodes.
    private const int MaxGroups = 256;

    private readonly List<MessageBatch>? _chosen;
    private readonly List<int>? _places;
    private readonly ReadOnlyMemory<MessageBatch> _whole;
    private readonly ActivityContext _trace;
    private HashSet<string>? _groups;
    private long _messages;

    /// <summary>All batches of the send; those for <see cref="FrameDestination.Members"/> are of one group.</summary>
    internal PlannedFrame(FrameDestination destination, ReadOnlyMemory<MessageBatch> whole, ActivityContext trace)
    {
        Destination = destination;
        _trace = trace;
        _whole = whole;
        if (destination == FrameDestination.Members)
            _groups = [whole.Span[0].Handle.Name!];
    }

    /// <summary>Some of them, added one by one.</summary>
    internal PlannedFrame(FrameDestination destination, ActivityContext trace)
    {
        Destination = destination;
        _trace = trace;
        _chosen = [];
        _places = [];
        if (destination == FrameDestination.Members)
            _groups = new HashSet<string>(StringComparer.Ordinal);
    }

    /// <summary>Where it goes.</summary>
    public FrameDestination Destination { get; private set; }

    /// <summary>The names of the groups whose members it is for, where its destination is <see cref="FrameDestination.Members"/>; otherwise empty.</summary>
    public IReadOnlySet<string> Groups => _groups ?? (IReadOnlySet<string>)ImmutableHashSet<string>.Empty;

    /// <summary>Its batches, which <see cref="Encode"/> encodes.</summary>
    public ReadOnlySpan<MessageBatch> Batches => _chosen is null ? _whole.Span : CollectionsMarshal.AsSpan(_chosen);

    /// <summary>The most bytes that the frame takes so far; counted only for what is added.</summary>
    internal long Bytes { get; private set; }

    internal ProducerId Producer => Batches[0].Producer;

    /// <summary>True when a receiver with the default limits would refuse it with one more batch.</summary>
    internal bool IsFullFor(MessageBatch batch) => _chosen!.Count == FrameLimits.Shared.MaxBatches || _messages + batch.Count > FrameLimits.Shared.MaxMessages;

    /// <summary>Encodes its batches, with the trace context of the span that was recorded when the send was planned, so that the receiver's span continues it.</summary>
    /// <param name="signer">Signs the frame for its destination; null for none.</param>
    /// <exception cref="ArgumentException">A batch can't be encoded; see <see cref="PooledFrame.Encode"/>.</exception>
    public PooledFrame Encode(FrameSigner? signer = null) => PooledFrame.Encode(Batches, signer, _trace, Destination);

    internal void Add(MessageBatch batch, int place, int bytes)
    {
        _chosen!.Add(batch);
        _places!.Add(place);
        Bytes += bytes;
        _messages += batch.Count;
        _groups?.Add(batch.Handle.Name!);
        if (_groups?.Count > MaxGroups)
            (Destination, _groups) = (FrameDestination.All, null);
    }

    /// <summary>Sets the same outcome for each of its batches, at their places in the send.</summary>
    internal void Report(BatchOutcome outcome, Span<BatchOutcome> outcomes)
    {
        if (_places is null)
        {
            outcomes.Fill(outcome);
            return;
        }

        foreach (var place in _places)
            outcomes[place] = outcome;
    }
}

/// <summary>Where a frame goes: the receiver of one node, or the receivers of all, or of those that have members of the frame's groups.</summary>
public readonly record struct FrameDestination
{
    private readonly int _node;

    private FrameDestination(int node) => _node = node;

    /// <summary>The receivers of all nodes.</summary>
    public static FrameDestination All { get; } = new(-1);

    /// <summary>The receivers of the nodes with members of at least one of the frame's groups (<see cref="PlannedFrame.Groups"/>). Others may get the frame too.</summary>
    public static FrameDestination Members { get; } = new(-2);

    /// <summary>True for <see cref="All"/> and for <see cref="Members"/>: each node may need the frame.</summary>
    public bool IsAll => _node < 0;

    /// <summary>The node; zero for <see cref="All"/> and <see cref="Members"/>.</summary>
    public int Node => IsAll ? 0 : _node;

    /// <summary>Where output for a handle goes: a connection's to its node, a named handle's to all.</summary>
    /// <param name="handle">The handle.</param>
    /// <param name="destinationNode">When given, the node that all output goes to, whatever its handle.</param>
    /// <param name="byMembers">True where a named handle's output goes to <see cref="Members"/>.</param>
    public static FrameDestination Of(OutputHandle handle, int? destinationNode, bool byMembers = false) =>
        destinationNode is { } node ? new FrameDestination(node)
        : handle.IsConnection ? new FrameDestination(handle.Node)
        : byMembers ? Members
        : All;

    /// <summary>True when some receiver may get what goes to either.</summary>
    public bool Shares(FrameDestination other) => IsAll || other.IsAll || _node == other._node;

    /// <summary>A human-readable form of the destination.</summary>
    public override string ToString() => this == Members ? "all nodes with members" : IsAll ? "all nodes" : $"node {_node.ToString(CultureInfo.InvariantCulture)}";
}

/// <summary>The receivers of some frames.</summary>
internal sealed class FrameReceivers
{
    private readonly HashSet<int> _nodes = [];
    private bool _isAll;

    public void Add(FrameDestination destination)
    {
        _isAll |= destination.IsAll;
        _nodes.Add(destination.Node);
    }

    public void Add(FrameReceivers others)
    {
        _isAll |= others._isAll;
        _nodes.UnionWith(others._nodes);
    }

    /// <summary>Whether one of them is one of the others.</summary>
    public bool Overlap(FrameReceivers others) => (_isAll && others._nodes.Count > 0) || (others._isAll && _nodes.Count > 0) || _nodes.Overlaps(others._nodes);

    /// <summary>Whether one of them may get what goes to the destination; see <see cref="FrameDestination.Shares"/>.</summary>
    public bool Overlap(FrameDestination destination) => _isAll || (destination.IsAll ? _nodes.Count > 0 : _nodes.Contains(destination.Node));
}

/// <summary>Reports what a send that was not acknowledged as a whole means for each of its batches.</summary>
public static class FrameReport
{
    /// <summary>Creates the exception that the send throws.</summary>
    /// <param name="target">A human-readable name of the next hop; the message begins with it.</param>
    /// <param name="frames">The send's frames, as they were planned and published.</param>
    /// <param name="results">The answer to each; at least one is not acknowledged.</param>
    /// <param name="batchCount">How many batches the send had.</param>
    /// <returns>A <see cref="BatchSendException"/>, or an <see cref="IOException"/> when no batch was acknowledged and none is refused.</returns>
    public static Exception ToException(string target, IReadOnlyList<PlannedFrame> frames, IReadOnlyList<FrameResult> results, int batchCount)
    {
        ArgumentNullException.ThrowIfNull(frames);
        ArgumentNullException.ThrowIfNull(results);
        var outcomes = new BatchOutcome[batchCount];
        var overtaking = new Dictionary<ProducerId, FrameReceivers>();
        // Without an answer to some frame it is not known whether the next hop works, and all that is left waits for it.
        var isAnswered = results.All(static result => result.Outcome != FrameOutcome.Unknown);
        for (var index = frames.Count - 1; index >= 0; index--)
        {
            var frame = frames[index];
            var wasOvertaken = overtaking.GetValueOrDefault(frame.Producer)?.Overlap(frame.Destination) == true;
            frame.Report(Evaluate(results[index].Outcome, wasOvertaken, isAnswered), outcomes);
            if (results[index].Outcome == FrameOutcome.Acknowledged)
                (CollectionsMarshal.GetValueRefOrAddDefault(overtaking, frame.Producer, out _) ??= new FrameReceivers()).Add(frame.Destination);
        }

        var firstError = results.Select(static result => result.Error).FirstOrDefault(static error => error is not null);
        var reasons = results.Select(static result => result.Reason).Where(static reason => reason is not null).Distinct(StringComparer.Ordinal);
        var text = $"{target} did not accept everything. {string.Join(' ', reasons)}";
        return Array.TrueForAll(outcomes, static outcome => outcome == BatchOutcome.Unacknowledged)
            ? new IOException(text, firstError)
            : new BatchSendException(ImmutableCollectionsMarshal.AsImmutableArray(outcomes), text, firstError);
    }

    private static BatchOutcome Evaluate(FrameOutcome outcome, bool wasOvertaken, bool isAnswered) => outcome switch
    {
        FrameOutcome.Acknowledged => BatchOutcome.Acknowledged,
        FrameOutcome.Refused => BatchOutcome.Refused,
        // A later frame was taken, so a receiver would drop this one as a repeat: sending it again would lose it without a trace.
        FrameOutcome.NotTaken when wasOvertaken => BatchOutcome.Refused,
        FrameOutcome.NotTaken when isAnswered => BatchOutcome.Busy,
        // When a later frame for the same receiver is acknowledged, the receiver has had this one as well, and drops it when it comes again.
        _ => BatchOutcome.Unacknowledged,
    };
}

/// <summary>The next hop's answer to one frame, and why.</summary>
/// <param name="Outcome">The answer.</param>
/// <param name="Reason">Why the next hop does not have the frame, as a sentence; null when it has.</param>
/// <param name="Error">The cause, if there is one.</param>
public readonly record struct FrameResult(FrameOutcome Outcome, string? Reason = null, Exception? Error = null);

/// <summary>The next hop's answer to one frame of a send.</summary>
public enum FrameOutcome
{
    /// <summary>It has the frame, for every receiver that the frame goes to.</summary>
    Acknowledged = 0,

    /// <summary>It answered that it does not take the frame now, or the frame waits for one that has no other receivers; it may take it later.</summary>
    NotTaken = 1,

    /// <summary>It will never take the frame: the node is gone, or the frame is too large.</summary>
    Refused = 2,

    /// <summary>There was no answer: the connection broke, or the time was up. It may have the frame.</summary>
    Unknown = 3,
}
