using BatchKit.Transports;
using MudServer.Game;
using MudServer.Telnet;

namespace MudServer.Hosting;

/// <summary>Puts the ways of output and of input together.</summary>
internal static class MudBuffers
{
    /// <summary>The name of the buffer that carries what players type.</summary>
    public const string Input = "input";

    public static void Add(IServiceCollection services, MudOptions options)
    {
        if (options.Role != MudRole.Gateway)
            AddOutput(services.AddBatchKit(output => output.Node = options.Node), options);
        if (options.Role != MudRole.Game)
            services.AddBatchKit(Input, input => input.Node = options.Node).UseLocal(Game);
    }

    private static void AddOutput(BatchKitBuilder output, MudOptions options)
    {
        switch (options.Transport)
        {
            case MudTransport.Memory:
                output.Services.AddSingleton(services => new InMemoryTransport(Sockets(services)));
                output.AddRoute("memory", services => services.GetRequiredService<InMemoryTransport>());
                break;
            default:
                output.UseLocal(Sockets);
                break;
        }
    }

    private static TelnetTransport Sockets(IServiceProvider services) => services.GetRequiredService<TelnetTransport>();

    private static GameInput Game(IServiceProvider services) => services.GetRequiredService<GameInput>();
}
