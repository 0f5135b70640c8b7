using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.RabbitMQ;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.RabbitMQ;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The MUD as three processes with a broker between them, and a look at what the game publishes.</summary>
internal sealed class TwoGateways : IAsyncDisposable
{
    private readonly List<MudProcess> _processes = [];
    private readonly RabbitMqProbe _probe;
    private readonly RabbitMqOptions _options;

    private TwoGateways(RabbitMqProbe probe, RabbitMqOptions options)
    {
        _probe = probe;
        _options = options;
    }

    public MudProcess First => _processes[1];

    public MudProcess Second => _processes[2];

    public static async Task<TwoGateways> StartAsync(RabbitMqServer server)
    {
        var mud = new TwoGateways(await RabbitMqProbe.ConnectAsync(server), RabbitMqSome.Options(server));
        string[] arguments = ["--prefix", mud._options.Prefix, "--rabbitmq", server.Address.ToString()];
        try
        {
            mud._processes.Add(await MudProcess.StartAsync(["--role", "game", .. arguments]));
            mud._processes.Add(await MudProcess.StartAsync(["--role", "gateway", "--port", "0", "--node", "2", .. arguments]));
            mud._processes.Add(await MudProcess.StartAsync(["--role", "gateway", "--port", "0", "--node", "3", .. arguments]));
            return mud;
        }
        catch
        {
            await mud.DisposeAsync();
            throw;
        }
    }

    /// <summary>Makes a queue that gets a copy of every frame the game publishes, to one gateway or to all.</summary>
    public Task<string> ListenAsync() => _probe.ListenAsync(_options, "2", "3", "all");

    /// <summary>How many messages of the frames begin so.</summary>
    public async Task<int> CountAsync(string queue, string start)
    {
        var frames = await _probe.TakeFramesAsync(queue);
        return frames.SelectMany(frame => frame.Texts).Count(text => text.StartsWith(start, StringComparison.Ordinal));
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var process in _processes)
            process.Dispose();
        await _probe.DisposeAsync();
    }
}
