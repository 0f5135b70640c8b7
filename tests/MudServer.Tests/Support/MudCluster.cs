using System.Net.Http.Json;
using System.Text.Json;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.RabbitMQ;
using MudServer.Game;

namespace MudServer.Tests.Support;

/// <summary>Games and gateways as processes, with a broker between them. Dispose it: that kills them.</summary>
internal sealed class MudCluster(RabbitMqServer server) : IDisposable
{
    private const int FirstGatewayNode = 50;

    private readonly List<MudProcess> _processes = [];
    private readonly HttpClient _http = new();
    private readonly string[] _arguments = ["--prefix", $"mud-{Guid.NewGuid():n}", "--rabbitmq", server.Address.ToString()];
    private int _gateways;

    /// <summary>Returns the first of some names that belongs to one of two shards.</summary>
    public static string NameOf(int shard, params string[] names) => names.First(name => Shards.Of(name, 2) == shard);

    public Task<MudProcess> StartGameAsync(params string[] arguments) => StartAsync(["--role", "game", .. arguments]);

    public Task<MudProcess> StartGatewayAsync(params string[] arguments)
    {
        var node = FirstGatewayNode + Interlocked.Increment(ref _gateways);
        return StartAsync(["--role", "gateway", "--port", "0", "--node", $"{node}", .. arguments]);
    }

    public async Task<JsonElement> GetStatisticsAsync(MudProcess process) =>
        await _http.GetFromJsonAsync<JsonElement>(process.Statistics).WithinDeadline();

    /// <summary>The shards that a game plays now, such as "1, 2".</summary>
    public async Task<string> GetShardsAsync(MudProcess game) =>
        string.Join(", ", (await GetStatisticsAsync(game)).GetProperty("shards").EnumerateArray());

    public void Dispose()
    {
        foreach (var process in _processes)
            process.Dispose();
        _http.Dispose();
    }

    private async Task<MudProcess> StartAsync(string[] arguments)
    {
        var process = await MudProcess.StartAsync([.. arguments, .. _arguments]);
        lock (_processes)
            _processes.Add(process);
        return process;
    }
}
