using System.Collections.Immutable;
using BatchKit.Transports;
using Microsoft.Extensions.Options;

namespace BatchKit;

/// <summary>A path out of this process: a name, a transport, and its number of partitions.</summary>
public sealed class OutputRoute
{
    /// <summary>The most partitions of a route: 64.</summary>
    public const int MaxPartitions = 64;

    /// <summary>Creates a route.</summary>
    /// <param name="name">The route's name for an <see cref="IOutputRouter"/> and in metrics.</param>
    /// <param name="transport">The next hop. The buffer does not dispose it.</param>
    /// <param name="partitions">
    /// From 1 to <see cref="MaxPartitions"/>. Each partition has one send in flight. With 1, the default, order holds across handles too (a
    /// room's line, then a player's prompt). With more, it holds only for each handle.
    /// </param>
    /// <exception cref="ArgumentException">The name is null or empty.</exception>
    /// <exception cref="ArgumentOutOfRangeException"><paramref name="partitions"/> is outside its range.</exception>
    public OutputRoute(string name, IBatchTransport transport, int partitions = 1)
    {
        ArgumentException.ThrowIfNullOrEmpty(name);
        ArgumentNullException.ThrowIfNull(transport);
        ArgumentOutOfRangeException.ThrowIfLessThan(partitions, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(partitions, MaxPartitions);
        Name = name;
        Transport = transport;
        Partitions = partitions;
    }

    /// <summary>The route's name for an <see cref="IOutputRouter"/> and in metrics.</summary>
    public string Name { get; }

    /// <summary>The next hop.</summary>
    public IBatchTransport Transport { get; }

    /// <summary>How many partitions it has.</summary>
    public int Partitions { get; }

    internal void ThrowIfTooNarrow(OutputBufferOptions options, string buffer)
    {
        if (options.MaxBatchBytes <= Transport.MaxBatchBytes)
            return;
        var setting = Transport.LimitingSetting ?? $"the largest frame or packet in the options of {Transport.GetType().Name}";
        throw new OptionsValidationException(buffer, typeof(OutputBufferOptions),
        [
            $"{nameof(OutputBufferOptions)}.{nameof(OutputBufferOptions.MaxBatchBytes)} ({options.MaxBatchBytes}) must be at most {Transport.MaxBatchBytes}, which is the largest batch that route '{Name}' takes. "
            + $"Lower it, or raise {setting}.",
        ]);
    }
}

/// <summary>Chooses the routes of a handle's output.</summary>
/// <remarks>
/// The buffer asks once for each handle in use, from any thread, and again after the handle was idle. A receiver on the same node asks for each group batch of this buffer that comes back over the broker. Always give the same answer for the same
/// handle. Return a shared array, because a handle's first write waits for the answer.
/// </remarks>
public interface IOutputRouter
{
    /// <summary>Gets the names of a handle's routes, in any order. At least one; the buffer must have a route for each name, or the write throws <see cref="InvalidOperationException"/>.</summary>
    /// <param name="handle">The destination.</param>
    ImmutableArray<string> GetRoutes(OutputHandle handle);
}

/// <summary>Sends output for this node's connections to the local route, for other nodes' connections to the remote one, and for named destinations to both.</summary>
public sealed class LocalFirstRouter : IOutputRouter
{
    /// <summary>The name of the route to this node's connections: <c>local</c>.</summary>
    public const string LocalRoute = "local";

    /// <summary>The name of the route to the other nodes: <c>remote</c>.</summary>
    public const string RemoteRoute = "remote";

    private static readonly ImmutableArray<string> Local = [LocalRoute];
    private static readonly ImmutableArray<string> Remote = [RemoteRoute];
    private static readonly ImmutableArray<string> Both = [LocalRoute, RemoteRoute];

    private readonly NodeNumber _node;

    /// <summary>Creates the router of one node.</summary>
    /// <param name="node">This node's number, from 0 to <see cref="OutputHandle.MaxNode"/>.</param>
    /// <exception cref="ArgumentOutOfRangeException">The number is outside its range.</exception>
    public LocalFirstRouter(int node)
        : this(new NodeNumber(node))
    {
    }

    /// <summary>Creates the router of one node. It reads the number when it first routes a connection's output.</summary>
    /// <param name="node">This node's number.</param>
    public LocalFirstRouter(NodeNumber node)
    {
        ArgumentNullException.ThrowIfNull(node);
        _node = node;
    }

    /// <inheritdoc/>
    public ImmutableArray<string> GetRoutes(OutputHandle handle) =>
        !handle.IsConnection ? Both : handle.Node == _node.Value ? Local : Remote;
}
