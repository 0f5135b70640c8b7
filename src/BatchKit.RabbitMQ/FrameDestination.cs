namespace BatchKit.RabbitMQ;

/// <summary>Where a frame goes: the queue of one node, or the queues of all.</summary>
internal readonly record struct FrameDestination
{
    private const int AllNodes = -1;

    private readonly int _node;

    private FrameDestination(int node) => _node = node;

    public static FrameDestination All { get; } = new(AllNodes);

    public bool IsAll => _node == AllNodes;

    public string RoutingKey => IsAll ? RabbitMqTopology.AllNodesKey : RabbitMqTopology.NodeKey(_node);

    public static FrameDestination Of(OutputHandle handle, int? destinationNode) =>
        destinationNode is { } node ? new FrameDestination(node)
        : handle.IsConnection ? new FrameDestination(handle.Node)
        : All;

    /// <summary>True when some queue gets what goes to either.</summary>
    public bool Shares(FrameDestination other) => IsAll || other.IsAll || _node == other._node;

    public override string ToString() => IsAll ? "all nodes" : $"node {RabbitMqTopology.NodeKey(_node)}";
}
