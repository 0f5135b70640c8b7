using System.Globalization;
using BatchKit.Transports;

namespace BatchKit.Tests.Scale;

/// <summary>A broker in memory, with a direct exchange and a queue for each node: it copies a frame once into each queue that one of the frame's keys is bound to.</summary>
internal sealed class SimulatedBroker
{
    private const string AllNodesKey = "all";

    private readonly Dictionary<string, List<NodeQueue>> _bindings = new(StringComparer.Ordinal);
    private readonly List<NodeQueue> _queues = [];

    public IReadOnlyList<NodeQueue> Queues => _queues;

    public BrokerCounts Counts { get; private set; }

    public int GroupBindings { get; private set; }

    /// <summary>When set, each publish with a number that it divides is stored, and its confirm is lost.</summary>
    public int LostConfirms { get; set; }

    /// <summary>Declares a node's queue, bound to the node's number and to the output for all nodes.</summary>
    public NodeQueue Declare(int node)
    {
        var queue = new NodeQueue();
        _queues.Add(queue);
        QueuesOf(NodeKey(node)).Add(queue);
        QueuesOf(AllNodesKey).Add(queue);
        return queue;
    }

    public void BindGroup(string group, NodeQueue queue)
    {
        QueuesOf(GroupKey(group)).Add(queue);
        GroupBindings++;
    }

    public void UnbindGroup(string group, NodeQueue queue)
    {
        if (QueuesOf(GroupKey(group)).Remove(queue))
            GroupBindings--;
    }

    public void Publish(FrameDestination destination, IReadOnlySet<string> groups, ReadOnlyMemory<byte> frame)
    {
        var queues = destination == FrameDestination.Members
            ? groups.SelectMany(group => QueuesOf(GroupKey(group))).ToHashSet()
            : (IReadOnlyCollection<NodeQueue>)QueuesOf(destination.IsAll ? AllNodesKey : NodeKey(destination.Node));
        var bytes = frame.ToArray();
        foreach (var queue in queues)
            queue.Add(bytes);
        Counts += new BrokerCounts(1, bytes.Length, queues.Count, (long)bytes.Length * queues.Count);
        if (LostConfirms > 0 && Counts.Published % LostConfirms == 0)
            throw new IOException("The confirm is lost.");
    }

    private List<NodeQueue> QueuesOf(string key)
    {
        if (!_bindings.TryGetValue(key, out var queues))
            _bindings.Add(key, queues = []);
        return queues;
    }

    private static string NodeKey(int node) => node.ToString(CultureInfo.InvariantCulture);

    private static string GroupKey(string group) => $"group.{group}";
}

/// <summary>What the broker has taken from senders, and put into queues.</summary>
internal readonly record struct BrokerCounts(long Published, long PublishedBytes, long Delivered, long DeliveredBytes)
{
    public static BrokerCounts operator +(BrokerCounts left, BrokerCounts right) => new(
        left.Published + right.Published, left.PublishedBytes + right.PublishedBytes, left.Delivered + right.Delivered, left.DeliveredBytes + right.DeliveredBytes);

    public static BrokerCounts operator -(BrokerCounts left, BrokerCounts right) => new(
        left.Published - right.Published, left.PublishedBytes - right.PublishedBytes, left.Delivered - right.Delivered, left.DeliveredBytes - right.DeliveredBytes);
}

/// <summary>The frames that wait for one node.</summary>
internal sealed class NodeQueue
{
    private readonly Queue<byte[]> _frames = new();

    public long Frames { get; private set; }

    public void Add(byte[] frame)
    {
        _frames.Enqueue(frame);
        Frames++;
    }

    /// <summary>Hands the waiting frames to a receiver, one after another.</summary>
    public void DrainTo(BatchReceiver receiver)
    {
        while (_frames.TryDequeue(out var frame))
        {
            var receiving = receiver.ReceiveAsync(frame, CancellationToken.None);
            Assert.True(receiving.IsCompleted);
            receiving.GetAwaiter().GetResult();
        }
    }
}

/// <summary>Publishes the groups' output by their keys, as RabbitMQ's transport does where groups are routed by their members.</summary>
internal sealed class MemberTransport(SimulatedBroker broker) : IBatchTransport
{
    private const int MaxFrameBytes = 1024 * 1024;

    public bool SendsWithoutBlocking => true;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        var frames = FramePlan.Create(batches, MaxFrameBytes, destinationNode: null, byMembers: true);
        var results = new FrameResult[frames.Count];
        for (var index = 0; index < results.Length; index++)
            results[index] = Publish(frames[index]);
        return Array.TrueForAll(results, static result => result.Outcome == FrameOutcome.Acknowledged)
            ? default
            : ValueTask.FromException(FrameReport.ToException("The simulated broker", frames, results, batches.Length));
    }

    private FrameResult Publish(PlannedFrame frame)
    {
        using var encoded = frame.Encode();
        try
        {
            broker.Publish(frame.Destination, frame.Groups, encoded.Bytes);
            return new FrameResult(FrameOutcome.Acknowledged);
        }
        catch (IOException lost)
        {
            return new FrameResult(FrameOutcome.Unknown, lost.Message, lost);
        }
    }
}
