using System.Globalization;

namespace BatchKit.Transports;

/// <summary>Where a frame goes: the receiver of one node, or the receivers of all.</summary>
public readonly record struct FrameDestination
{
    private const int AllNodes = -1;

    private readonly int _node;

    private FrameDestination(int node) => _node = node;

    /// <summary>The receivers of all nodes.</summary>
    public static FrameDestination All { get; } = new(AllNodes);

    /// <summary>True for <see cref="All"/>.</summary>
    public bool IsAll => _node == AllNodes;

    /// <summary>The node; zero for <see cref="All"/>.</summary>
    public int Node => IsAll ? 0 : _node;

    /// <summary>Where output for a handle goes: a connection's to its node, a named handle's to all.</summary>
    /// <param name="handle">The handle.</param>
    /// <param name="destinationNode">When given, the node that all output goes to, whatever its handle.</param>
    public static FrameDestination Of(OutputHandle handle, int? destinationNode) =>
        destinationNode is { } node ? new FrameDestination(node)
        : handle.IsConnection ? new FrameDestination(handle.Node)
        : All;

    /// <summary>True when some receiver gets what goes to either.</summary>
    public bool Shares(FrameDestination other) => IsAll || other.IsAll || _node == other._node;

    /// <summary>The destination, for a person.</summary>
    public override string ToString() => IsAll ? "all nodes" : $"node {_node.ToString(CultureInfo.InvariantCulture)}";
}
