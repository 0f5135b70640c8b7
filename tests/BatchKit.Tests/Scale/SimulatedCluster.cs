using System.Collections.Immutable;
using BatchKit.Testing;
using BatchKit.Tests.Schedules;
using BatchKit.Transports;

namespace BatchKit.Tests.Scale;

/// <summary>80 gateways and 20 games in one process, on one manual clock: the product's buffers, routers, partitions, frames and receivers, and a broker in memory.</summary>
/// <remarks>
/// Everything runs on the caller's thread. Each node has as many clients as any other, and each game as many rooms. A room has ten players: five on each of two nodes. A player's input goes to the game of its
/// room over a buffer for that game, as several games behind the same gateways need.
/// </remarks>
internal sealed class SimulatedCluster : IAsyncDisposable
{
    public const int Nodes = 100;
    public const int Games = 20;
    public const int LineBytes = 80;
    public const int RoomSize = 10;

    // A game's output has lower ones.
    private const long FirstInputEpoch = 1_000_000;

    private readonly QueuedScheduler _scheduler = new();
    private readonly byte[] _line = new byte[LineBytes];

    public SimulatedCluster(ClusterSettings settings)
    {
        Settings = settings;
        Handles = new OutputHandle[settings.Handles];
        (Replies, Inputs, RoomLines) = (new LineBook(settings.Handles), new LineBook(settings.Handles), new LineBook(settings.Handles));
        AllNodes = [.. Enumerable.Range(1, Nodes).Select(number => new SimulatedNode(this, number))];
        AllGames = [.. AllNodes[^Games..].Select(node => node.Game = new SimulatedGame(this, node))];
        for (var room = 0; room < Rooms; room++)
            FillRoom(room);
        foreach (var node in AllNodes)
        {
            node.Inputs = [.. AllGames.Select(game => CreateInput(node.Number, game.Node.Number))];
            if (settings.ByMembers)
                Bind(node);
        }
    }

    public ClusterSettings Settings { get; }

    public ManualTimeProvider Clock { get; } = new();

    public SimulatedBroker Broker { get; } = new();

    /// <summary>Each client's connection; none while its node is gone.</summary>
    public OutputHandle[] Handles { get; }

    public SimulatedNode[] AllNodes { get; }

    public SimulatedGame[] AllGames { get; }

    public int Rooms => Settings.Handles / RoomSize;

    public LineBook Replies { get; }

    public LineBook Inputs { get; }

    public LineBook RoomLines { get; }

    /// <summary>The lines to players that came over the broker, by the number of their partition.</summary>
    public long[] LinesOfPartitions { get; } = new long[OutputRoute.MaxPartitions + 1];

    public IEnumerable<OutputBuffer> Buffers => AllGames.Select(static game => game.Output).Concat(AllNodes.SelectMany(static node => node.Inputs));

    public static IEnumerable<int> MembersOf(int room) => Enumerable.Range(room * RoomSize, RoomSize);

    public static int RoomOf(int client) => client / RoomSize;

    public static OutputHandle GroupOf(int room) => OutputHandle.Named($"room-{room}");

    /// <summary>The client that wrote a line of input, which says its number.</summary>
    public int ClientAt(OutputHandle handle, ReadOnlySpan<byte> payload)
    {
        var client = BitConverter.ToInt32(payload);
        Assert.Equal(Handles[client], handle);
        return client;
    }

    public void TakeRoomLine(int member, ReadOnlySpan<byte> payload)
    {
        Assert.Equal(LineBook.NumberOfRoom(RoomOf(member)), BitConverter.ToInt32(payload));
        var line = BitConverter.ToInt32(payload[sizeof(int)..]);
        RoomLines.Take(member, line);
        // With one partition, what was written before to another handle arrives before.
        if (Settings.Partitions == 1 && Replies.LastOf(member) < line)
            Assert.Fail($"Line {line} of a room overtook that of player {member}.");
    }

    public OutputBuffer CreateOutput(SimulatedNode node, long epoch)
    {
        OutputRoute[] routes = [new(LocalFirstRouter.LocalRoute, node), new(LocalFirstRouter.RemoteRoute, CreateTransport(), Settings.Partitions)];
        return new OutputBuffer(routes, new LocalFirstRouter(node.Number), OptionsOf(node.Number), "", Clock, logger: null, meterFactory: null, _scheduler, epoch);
    }

    /// <summary>Each player's client sends a line to its game.</summary>
    public BrokerCounts SendInput(int line)
    {
        var before = Broker.Counts;
        foreach (var node in AllNodes)
        {
            for (var game = 0; game < Games; game++)
            {
                using (node.Inputs[game].BeginBufferingScope())
                    Write(node, game, line);
            }
        }

        Deliver();
        return Broker.Counts - before;
    }

    /// <summary>Lets each player join the group of its room.</summary>
    public BrokerCounts JoinRooms() => ForEachGame(static game => game.Join(game.Players));

    /// <inheritdoc cref="SimulatedGame.Tick"/>
    public BrokerCounts Tick(int line, RoomLineOrder order = RoomLineOrder.BehindAllPlayers) => ForEachGame(game => game.Tick(line, order));

    /// <summary>Lets the senders that want the pool run, and hands what waits at the broker to the receivers, until nothing is left.</summary>
    public void Deliver()
    {
        while (_scheduler.Waiting > 0)
            _scheduler.Run(0);
        foreach (var node in AllNodes)
            node.Receive();
    }

    /// <summary>A client that has lost its connection gets a new one, and what is written behind this line.</summary>
    public void Reconnect(int client, SimulatedNode node, int line)
    {
        node.Connect(client);
        Replies.Skip(client, line);
        RoomLines.Skip(client, line);
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var buffer in Buffers.ToArray())
            await buffer.DisposeAsync();
    }

    private void Bind(SimulatedNode node) => node.Receiver.Groups!.Watch(group =>
    {
        if (node.HasMembers(group))
            Broker.BindGroup(group, node.Queue);
        else
            Broker.UnbindGroup(group, node.Queue);
    });

    // In a hundred rooms each node is the first once and the second once, and each game meets each node.
    private void FillRoom(int room)
    {
        var (place, block) = (room % Nodes, room / Nodes);
        var game = (place + block) % Games;
        AllGames[game].AddRoom(room);
        var (first, second) = (AllNodes[place], AllNodes[(place + 1 + (block % (Nodes - 1))) % Nodes]);
        foreach (var client in MembersOf(room))
        {
            var node = client % RoomSize < RoomSize / 2 ? first : second;
            node.Connect(client);
            node.ClientsOfGames[game].Add(client);
        }
    }

    private BrokerCounts ForEachGame(Action<SimulatedGame> act)
    {
        var before = Broker.Counts;
        foreach (var game in AllGames)
        {
            act(game);
            Deliver();
        }

        return Broker.Counts - before;
    }

    private void Write(SimulatedNode node, int game, int line)
    {
        foreach (var client in node.ClientsOfGames[game])
        {
            // A client on the game's own node needs no broker.
            if (node.Game == AllGames[game])
            {
                Inputs.Take(client, line);
                continue;
            }

            LineBook.Write(_line, client, line);
            node.Inputs[game].Write(Handles[client], _line);
        }
    }

    private OutputBuffer CreateInput(int node, int game) => new(
        [new OutputRoute("input", CreateFrameTransport(game))], router: null, OptionsOf(node), "", Clock, logger: null, meterFactory: null, _scheduler, epoch: FirstInputEpoch + game);

    private IBatchTransport CreateTransport() => Settings.ByMembers ? new MemberTransport(Broker) : CreateFrameTransport(destinationNode: null);

    private FrameTransport CreateFrameTransport(int? destinationNode) => new(
        (frame, _) =>
        {
            Broker.Publish(frame.Destination, ImmutableHashSet<string>.Empty, frame.Bytes);
            return default;
        },
        new FrameTransportOptions { DestinationNode = destinationNode, PublishesWithoutBlocking = true });

    private OutputBufferOptions OptionsOf(int node) => new()
    {
        Node = node,
        MaxSendBatches = Settings.MaxSendBatches,
        MaxSendBytes = Settings.MaxSendBytes,
        MaxBufferedBytes = 1L << 30,
        HandleIdleTimeout = Settings.HandleIdleTimeout,
    };
}

/// <summary>What differs between two simulations.</summary>
internal sealed record ClusterSettings(int Handles)
{
    /// <summary>Whether a group's output goes only to nodes with members.</summary>
    public bool ByMembers { get; init; } = true;

    public int Partitions { get; init; } = 1;

    public TimeSpan ProducerExpiry { get; init; } = new BatchReceiverOptions().ProducerExpiry;

    public int MaxSendBatches { get; init; } = new OutputBufferOptions().MaxSendBatches;

    public int MaxSendBytes { get; init; } = new OutputBufferOptions().MaxSendBytes;

    public TimeSpan HandleIdleTimeout { get; init; } = new OutputBufferOptions().HandleIdleTimeout;
}
