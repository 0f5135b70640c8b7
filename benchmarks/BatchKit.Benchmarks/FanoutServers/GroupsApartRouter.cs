using System.Collections.Immutable;
using BatchKit.Transports;

namespace BatchKit.Benchmarks.FanoutServers;

/// <summary>Gives groups a route of their own, so that single clients never wait behind a broadcast; nothing orders the two.</summary>
internal sealed class GroupsApartRouter(IBatchTransport transport) : IOutputRouter
{
    private const int ClientPartitions = 8;

    private static readonly ImmutableArray<string> Clients = ["clients"];
    private static readonly ImmutableArray<string> Groups = ["groups"];

    public IReadOnlyList<OutputRoute> Routes { get; } =
        [new OutputRoute(Clients[0], transport, ClientPartitions), new OutputRoute(Groups[0], transport)];

    public ImmutableArray<string> GetRoutes(OutputHandle handle) => handle.IsConnection ? Clients : Groups;
}
