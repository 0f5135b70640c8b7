namespace BatchKit.Tests.Scale;

/// <summary>How many frames a round takes, and in how many queues they end, when each game writes all of its lines in one send: counted from who is where, without the product's code.</summary>
internal sealed class FrameModel(SimulatedCluster cluster, int maxSharedGroups)
{
    private readonly HashSet<int>[] _nodesOfGames = [.. cluster.AllGames.Select(game => RemoteNodesOf(cluster, game))];

    /// <summary>Each node with clients of a game sends that game one frame.</summary>
    public (long Published, long Delivered) Input => (Pairs, Pairs);

    public (long Published, long Delivered) Joins => (Pairs, Pairs);

    public (long Published, long Delivered) OutputOf(RoomLineOrder order) => order switch
    {
        RoomLineOrder.BehindAllPlayers => BehindAllPlayers,
        RoomLineOrder.BehindItsPlayers => BehindItsPlayers,
        _ => (Pairs, Pairs),
    };

    /// <summary>A line to a client on its game's own node needs no broker.</summary>
    public long LinesOf(RoomLineOrder order) => LinesOfInput + (order == RoomLineOrder.ToMembers ? LinesOfInput : cluster.Rooms);

    /// <summary>One frame for each node with players of a game, then the rooms' frames.</summary>
    private (long Published, long Delivered) BehindAllPlayers => Sum(game => (NodesOf(game), NodesOf(game)), int.MaxValue);

    /// <summary>Behind a room's frame, output for each node begins a new one.</summary>
    private (long Published, long Delivered) BehindItsPlayers => Sum(
        game =>
        {
            var frames = game.Rooms.Sum(room => NodesOf(room).Count(node => node != game.Node.Number));
            return (frames, frames);
        },
        roomsOfFrame: 1);

    public long LinesOfInput => cluster.AllGames.Sum(game => game.Players.Count(player => cluster.Handles[player].Node != game.Node.Number));

    private long Pairs => _nodesOfGames.Sum(static nodes => nodes.Count);

    /// <summary>The nodes whose receivers get frames of a game: those with players, with its own where a room's frame comes back to it.</summary>
    public int ReceiversOf(SimulatedGame game) => NodesOf(game) + (game.Rooms.Any(room => NodesOf(room).Contains(game.Node.Number)) ? 1 : 0);

    private (long Published, long Delivered) Sum(Func<SimulatedGame, (long Published, long Delivered)> playersOf, int roomsOfFrame)
    {
        var (published, delivered) = (0L, 0L);
        foreach (var game in cluster.AllGames)
        {
            var players = playersOf(game);
            var frames = game.Rooms.Chunk(roomsOfFrame).ToArray();
            published += players.Published + frames.Length;
            delivered += players.Delivered + frames.Sum(NodesReachedBy);
        }

        return (published, delivered);
    }

    /// <summary>A frame with output for more rooms than it may name goes to all nodes.</summary>
    private int NodesReachedBy(int[] rooms) =>
        cluster.Settings.ByMembers && rooms.Length <= maxSharedGroups ? rooms.SelectMany(NodesOf).Distinct().Count() : SimulatedCluster.Nodes;

    private int NodesOf(SimulatedGame game) => _nodesOfGames[Array.IndexOf(cluster.AllGames, game)].Count;

    private HashSet<int> NodesOf(int room) => [.. SimulatedCluster.MembersOf(room).Select(member => cluster.Handles[member].Node)];

    private static HashSet<int> RemoteNodesOf(SimulatedCluster cluster, SimulatedGame game) =>
        [.. game.Players.Select(player => cluster.Handles[player].Node).Where(node => node != game.Node.Number)];
}
