using System.Globalization;
using System.Net;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>The options of one run of the server.</summary>
internal sealed class MudOptions
{
    public MudRole Role { get; set; }

    public MudTransport? RequestedTransport { get; set; }

    public bool IsBuffered { get; set; } = true;

    public IPAddress Address { get; set; } = IPAddress.Loopback;

    public int Port { get; set; } = 4201;

    public int? RequestedHttpPort { get; set; }

    public int? RequestedNode { get; set; }

    public int GameNode { get; set; } = 1;

    /// <summary>The shard of a game that shares the players with others; null for the only game.</summary>
    public Shards? Shard { get; set; }

    /// <summary>How many games share the players of a gateway; null for one.</summary>
    public int? RequestedShards { get; set; }

    public int ShardCount => RequestedShards ?? Shard?.Count ?? 1;

    public string Prefix { get; set; } = "batchkit-mud";

    public bool SendsGoAhead { get; set; } = true;

    public int MaxConnections { get; set; } = 1000;

    /// <summary>The most connections of one address; null for a fiftieth of all.</summary>
    public int? MaxConnectionsPerAddress { get; set; }

    public BrokerAddress Broker { get; } = new();

    /// <summary>How long a gateway that stops takes to send its clients to another one.</summary>
    public TimeSpan DrainTime { get; set; } = TimeSpan.FromSeconds(5);

    /// <summary>How long the game keeps a player whose gateway sent it away.</summary>
    public TimeSpan AwayLimit { get; set; } = TimeSpan.FromSeconds(60);

    /// <summary>How long the simulated broker takes to confirm a send. RabbitMQ takes 0.1 to 0.9 ms on the same machine.</summary>
    public TimeSpan ConfirmTime { get; set; } = TimeSpan.FromMilliseconds(0.3);

    /// <summary>The transport. Without a setting, two processes use RabbitMQ, and one process simulates a broker until one is named.</summary>
    public MudTransport Transport => RequestedTransport ?? (Role == MudRole.All && !Broker.IsSet ? MudTransport.Memory : MudTransport.RabbitMq);

    /// <summary>A human-readable form of what is between the game and the sockets.</summary>
    public string Hop => Transport switch
    {
        MudTransport.Local => "no broker: straight to the sockets",
        MudTransport.Memory => string.Create(CultureInfo.InvariantCulture, $"a simulated broker that confirms a send after {ConfirmTime.TotalMilliseconds:0.###} ms"),
        MudTransport.MassTransit => UsesRabbitMq ? "MassTransit and RabbitMQ" : "MassTransit in memory",
        _ => "RabbitMQ",
    };

    public int HttpPort => RequestedHttpPort ?? (Role == MudRole.Game ? 4202 + (Shard?.Home ?? 1) : 4202);

    public int Node => RequestedNode ?? (Role == MudRole.Gateway ? GameNode + ShardCount : OwnGameNode);

    private int OwnGameNode => NodeOf(Shard?.Home ?? 1);

    /// <summary>The node whose queue has the input of a shard.</summary>
    public int NodeOf(int shard) => GameNode + shard - 1;

    public bool UsesRabbitMq => Transport == MudTransport.RabbitMq
        || (Transport == MudTransport.MassTransit && (Broker.IsSet || Role != MudRole.All));

    /// <summary>Returns the error for settings that contradict each other; null when there is none.</summary>
    public string? FindContradiction()
    {
        if (Role != MudRole.All && Transport is MudTransport.Local or MudTransport.Memory)
        {
            return $"--role {MudSettings.Word(Role)} is one of two processes, and --transport {MudSettings.Word(Transport)} does not leave this one: "
                + "use rabbitmq or masstransit.";
        }

        return FindContradictoryShard() ?? FindContradictoryNode();
    }

    private string? FindContradictoryShard()
    {
        if (Shard is not null && Role != MudRole.Game)
            return "--shard is for a game that shares the players with others: use it with --role game. A gateway takes the number of games, --shards 2.";
        if (RequestedShards is not null && Role != MudRole.Gateway)
            return "--shards is for --role gateway: it is the number of games behind the gateway. A game says which of them it is, --shard 1/2.";
        if (ShardCount > 1 && Transport != MudTransport.RabbitMq)
            return $"Several games need --transport rabbitmq, and it is {MudSettings.Word(Transport)}.";
        return NodeOf(ShardCount) > OutputHandle.MaxNode
            ? $"--game-node is {GameNode}, and {ShardCount} games need as many numbers from there up: the largest is {OutputHandle.MaxNode}."
            : null;
    }

    private string? FindContradictoryNode()
    {
        if (Role == MudRole.Gateway && Node == GameNode)
            return $"--node and --game-node are both {Node}: the gateway and the game need different numbers.";
        if (Role == MudRole.Gateway && Node > GameNode && Node <= NodeOf(ShardCount))
            return $"--node is {Node}, which is the number of a game: {ShardCount} games have those from {GameNode} to {NodeOf(ShardCount)}.";
        if (Role == MudRole.Game && Shard is not null && Node != OwnGameNode)
            return $"--node is {Node}, and shard {Shard.Home} has the number {OwnGameNode}: leave --node out.";
        if (Role == MudRole.Game && Node != OwnGameNode)
            return $"--node is {Node} and --game-node is {GameNode}: for the game itself they are the same number.";
        return null;
    }
}
