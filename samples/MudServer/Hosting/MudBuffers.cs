using BatchKit.Broadcast;
using BatchKit.Sessions;
using BatchKit.Transports;
using MudServer.Clients;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>Adds the buffers for output and input: the same parts, in another order for each role.</summary>
internal static class MudBuffers
{
    /// <summary>The name of the buffer that carries what players type.</summary>
    public const string Input = "input";

    /// <summary>The name of the buffer that carries what games tell each other.</summary>
    public const string Peers = "peers";

    /// <summary>The name of the buffer whose output waits for players between two connections.</summary>
    public const string Away = "away";

    /// <summary>The name of the buffer that carries what players of a shard type.</summary>
    public static string InputOf(int shard) => shard == 1 ? Input : $"{Input}-{shard}";

    public static void Add(IServiceCollection services, MudOptions options)
    {
        if (options.Role == MudRole.Game && options.ShardCount > 1)
            AddSharded(services, options);
        else if (options.Role != MudRole.Gateway)
            AddOutput(services.AddBatchKit(output => Set(output, options)), options);
        if (options.Role != MudRole.Gateway)
            AddAway(services, options);
        if (options.Role == MudRole.Game)
            return;
        AddInput(services.AddBatchKit(Input, input => Set(input, options)), options);
        for (var shard = 2; shard <= options.ShardCount; shard++)
        {
            var node = options.NodeOf(shard);
            services.AddBatchKit(InputOf(shard), input => Set(input, options)).UseRabbitMq(rabbit => MudBroker.Set(rabbit, options, node));
        }
    }

    private static void Set(OutputBufferOptions buffer, MudOptions options)
    {
        buffer.Node = options.Node;

        // The goodbye and the drains of both buffers must end within the 30 s that a host has to stop.
        buffer.DrainTimeout = TimeSpan.FromSeconds(5);
    }

    /// <summary>Adds the output, from the game to the clients. When both are in one process, output leaves it for the broker and comes back.</summary>
    private static void AddOutput(BatchKitBuilder output, MudOptions options)
    {
        switch (options.Transport)
        {
            case MudTransport.Local:
                output.UseLocal(Clients);
                break;
            case MudTransport.Memory:
                output.Services.AddSingleton(services => new SimulatedBroker(Clients(services), options.ConfirmTime, services.GetRequiredService<TimeProvider>()));
                output.AddRoute("memory", services => services.GetRequiredService<SimulatedBroker>());
                break;
            default:
                UseBroker(output, options, options.Role == MudRole.All ? Clients : Game);
                break;
        }
    }

    /// <summary>Adds the output of one of several games, and what receives its shard's input.</summary>
    private static void AddSharded(IServiceCollection services, MudOptions options)
    {
        var output = services.AddBatchKit(output => Set(output, options)).UseRabbitMq(rabbit => MudBroker.Set(rabbit, options, destinationNode: null));
        services.AddSingleton(provider => ActivatorUtilities.CreateInstance<ShardReceivers>(provider, output));
        services.AddBatchKit(Peers, peers =>
        {
            Set(peers, options);

            // A game that ends may have waiting messages for one that never started.
            (peers.Overflow, peers.DrainTimeout) = (OverflowPolicy.DropNewest, TimeSpan.FromSeconds(1));
        }).UseRabbitMq(rabbit => MudBroker.Set(rabbit, options, destinationNode: null));
    }

    /// <summary>Adds the sessions of players between two connections. They have a buffer of their own: as a route of the output, each room's line would take it too, and count as a second send.</summary>
    private static void AddAway(IServiceCollection services, MudOptions options)
    {
        services.AddSingleton(provider => new SessionTransport(
            provider.GetRequiredService<IOutputBuffer>, new BatchKit.Sessions.SessionOptions { AwayTimeout = options.AwayLimit }, new NodeNumber(options.Node), provider.GetRequiredService<TimeProvider>(),
            provider.GetRequiredService<ILogger<SessionTransport>>()));
        services.AddBatchKit(Away, away => Set(away, options)).AddRoute(SessionTransport.RouteName, provider => provider.GetRequiredService<SessionTransport>());
    }

    /// <summary>Adds the input, from the clients to the game: directly, or from a gateway to the game's node.</summary>
    private static void AddInput(BatchKitBuilder input, MudOptions options)
    {
        PlayerClients.Add(input, options);
        if (options.Role == MudRole.All)
            input.UseLocal(Game);
        else
            UseBroker(input, options, Clients, destinationNode: options.GameNode);
    }

    private static void UseBroker(
        BatchKitBuilder builder, MudOptions options, Func<IServiceProvider, IBatchTransport> received, int? destinationNode = null)
    {
        if (options.Transport == MudTransport.RabbitMq)
            builder.UseRabbitMq(rabbit => MudBroker.Set(rabbit, options, destinationNode)).ReceiveFromRabbitMq(received);
        else
            builder.UseMassTransit(bus => MudBroker.Set(bus, options, destinationNode)).ReceiveFromMassTransit(received);
    }

    private static BroadcastTransport Clients(IServiceProvider services) => services.GetRequiredKeyedService<BroadcastTransport>(Input);

    private static GameInput Game(IServiceProvider services) => services.GetRequiredService<GameInput>();
}
