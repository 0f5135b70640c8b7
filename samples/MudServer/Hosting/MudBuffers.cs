using BatchKit.Broadcast;
using BatchKit.Transports;
using MudServer.Clients;
using MudServer.Game;

namespace MudServer.Hosting;

/// <summary>Adds the buffers for output and input: the same parts, in another order for each role.</summary>
internal static class MudBuffers
{
    /// <summary>The name of the buffer that carries what players type.</summary>
    public const string Input = "input";

    public static void Add(IServiceCollection services, MudOptions options)
    {
        if (options.Role != MudRole.Gateway)
            AddOutput(services.AddBatchKit(output => Set(output, options)), options);
        if (options.Role != MudRole.Game)
            AddInput(services.AddBatchKit(Input, input => Set(input, options)), options);
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
