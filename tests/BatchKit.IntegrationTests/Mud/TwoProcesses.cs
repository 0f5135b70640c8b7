using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.RabbitMQ;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The MUD as two processes with a broker between them, and a look at what crosses it.</summary>
internal sealed class TwoProcesses : IAsyncDisposable
{
    public const string GameNode = "1";
    public const string GatewayNode = "2";

    private readonly string[] _arguments;
    private readonly RabbitMqOptions _options;

    private TwoProcesses(MudProcess game, MudProcess gateway, RabbitMqProbe probe, RabbitMqOptions options, string[] arguments)
    {
        Game = game;
        Gateway = gateway;
        Probe = probe;
        _options = options;
        _arguments = arguments;
    }

    public MudProcess Game { get; private set; }

    public MudProcess Gateway { get; }

    public RabbitMqProbe Probe { get; }

    public static async Task<TwoProcesses> StartAsync(RabbitMqServer server, string transport)
    {
        var options = RabbitMqSome.Options(server);
        string[] arguments = ["--transport", transport, "--prefix", options.Prefix, "--rabbitmq", server.Address.ToString()];
        var game = await MudProcess.StartAsync(["--role", "game", .. arguments]);
        try
        {
            var gateway = await MudProcess.StartAsync(["--role", "gateway", "--port", "0", .. arguments]);
            return new TwoProcesses(game, gateway, await RabbitMqProbe.ConnectAsync(server), options, arguments);
        }
        catch
        {
            game.Dispose();
            throw;
        }
    }

    public async Task<TelnetClient> LoginAsync(string name)
    {
        var client = await Gateway.ConnectAsync();
        await client.LoginAsync(name);
        return client;
    }

    /// <summary>Makes a queue that gets, beside its receiver, each message for a node.</summary>
    public Task<string> ListenAsync(string node) => Probe.ListenAsync(_options, node);

    public Task<uint> CountWaitingAsync(string node) => Probe.CountAsync($"{_options.Prefix}.node.{node}");

    /// <summary>Ends the game and starts it again, while the gateway keeps its clients.</summary>
    public async Task RestartGameAsync()
    {
        Game.Terminate();
        await Game.WaitForExitAsync();
        Game.Dispose();
        Game = await MudProcess.StartAsync(["--role", "game", .. _arguments]);
    }

    public ValueTask DisposeAsync()
    {
        Gateway.Dispose();
        Game.Dispose();
        return Probe.DisposeAsync();
    }
}
