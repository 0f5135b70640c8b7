using System.Collections.Immutable;

namespace BatchKit;

/// <summary>Sends output for this node's own connections to the local route, other nodes' to the remote one, and groups' to both.</summary>
public sealed class LocalFirstRouter : IOutputRouter
{
    /// <summary>The name of the route to this node's own connections: <c>local</c>.</summary>
    public const string LocalRoute = "local";

    /// <summary>The name of the route to the other nodes: <c>remote</c>.</summary>
    public const string RemoteRoute = "remote";

    private static readonly ImmutableArray<string> Local = [LocalRoute];
    private static readonly ImmutableArray<string> Remote = [RemoteRoute];
    private static readonly ImmutableArray<string> Both = [LocalRoute, RemoteRoute];

    private readonly int _node;

    /// <summary>Makes the router of one node.</summary>
    /// <param name="node">This node's number, from 0 to <see cref="OutputHandle.MaxNode"/>.</param>
    public LocalFirstRouter(int node)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(node);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(node, OutputHandle.MaxNode);
        _node = node;
    }

    /// <inheritdoc/>
    public ImmutableArray<string> GetRoutes(OutputHandle handle) =>
        !handle.IsConnection ? Both : handle.Node == _node ? Local : Remote;
}
