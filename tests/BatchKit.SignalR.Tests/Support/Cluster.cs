using Microsoft.AspNetCore.SignalR;
using Microsoft.AspNetCore.SignalR.Client;

namespace BatchKit.SignalR.Tests.Support;

/// <summary>One server or two, with three clients: the first on the first server, the second on the last with MessagePack, the third on the last. Tests send at the first server.</summary>
public sealed class Cluster : IAsyncDisposable
{
    private readonly TaskCompletionSource _neverCalled = new(TaskCreationOptions.RunContinuationsAsynchronously);

    private Cluster(HubServer[] servers) => Servers = servers;

    /// <summary>The kinds of clusters: one server, or two over a backplane.</summary>
    public static TheoryData<string> Kinds => ["alone", "frames", "Redis"];

    public HubServer[] Servers { get; }

    public HubClientConnection[] Clients { get; private set; } = [];

    public string[] Ids => [.. Clients.Select(static client => client.Id)];

    public IHubContext<TestHub> Hub => Servers[0].Hub;

    /// <summary>Completes when a client was asked what it never answers.</summary>
    public Task NeverCalled => _neverCalled.Task;

    public static async Task<Cluster> StartAsync(string kind, Action<SignalROptions>? options = null)
    {
        var backplane = kind switch
        {
            "frames" => new FrameBus().Join,
            "Redis" => await SharedRedis.CreateBackplaneAsync(),
            _ => (Action<BatchKitBuilder>?)null,
        };
        HubServer[] servers = [await HubServer.StartAsync(backplane, options)];
        if (backplane is not null)
            servers = [.. servers, await HubServer.StartAsync(backplane, options)];
        var cluster = new Cluster(servers);
        cluster.Clients = [await cluster.ConnectAsync(0, servers[0]), await cluster.ConnectAsync(1, servers[^1], isBinary: true), await cluster.ConnectAsync(2, servers[^1])];
        return cluster;
    }

    public async Task JoinAsync(string group, params int[] clients)
    {
        foreach (var client in clients)
            await Hub.Groups.AddToGroupAsync(Ids[client], group).WithinDeadline();
    }

    public Task WaitForConnectionsAsync(int count) =>
        Until.TrueAsync(() => Servers.Sum(static server => server.Connections) == count);

    /// <summary>Asserts what each client has received: texts without spaces, with a space between two.</summary>
    public async Task AssertReceivedAsync(params string[] expected)
    {
        await Servers[0].FlushAsync(Clients);
        Assert.Equal(expected, Clients.Select(static client => string.Join(' ', client.Texts)));
    }

    public async ValueTask DisposeAsync()
    {
        foreach (var client in Clients)
            await client.DisposeAsync();
        foreach (var server in Servers)
            await server.DisposeAsync();
    }

    private Task<HubClientConnection> ConnectAsync(int number, HubServer server, bool isBinary = false) =>
        HubClientConnection.ConnectAsync(server.Address, isBinary, $"user{number}", configure: connection =>
        {
            connection.On("Add", (int addend) => Task.FromResult(addend + number));
            connection.On("Fail", static () => Task.FromException<int>(new InvalidOperationException("It failed on purpose.")));
            connection.On("Never", () =>
            {
                _neverCalled.TrySetResult();
                return new TaskCompletionSource<int>().Task;
            });
        });
}
