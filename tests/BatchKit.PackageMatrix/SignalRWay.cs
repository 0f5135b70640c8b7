using System.Buffers;
using System.Net.WebSockets;
using System.Text;
using System.Text.Json;
using BatchKit.SignalR;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.SignalR;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.PackageMatrix;

/// <summary>A hub's output over Redis to another server, which has the client.</summary>
internal static class SignalRWay
{
    private const int OtherNode = 2;
    private const string Method = "Receive";

    public static Way Create(Servers servers)
    {
        var prefix = Ways.Name();
        var other = BuildOther(servers, prefix);
        var client = new ClientWebSocket();
        return new Way("SignalR, over Redis", HubHandles.All<MatrixHub>(), services => Register(services, Ways.Node, servers, prefix))
        {
            WriteAsync = static (services, text) => services.GetRequiredService<IHubContext<MatrixHub>>().Clients.All.SendAsync(Method, text),
            ReadyAsync = async (services, cancellationToken) =>
            {
                await other.StartAsync(cancellationToken);
                await Way.WaitUntilHealthyAsync(other.Services, cancellationToken);
                await client.ConnectAsync(new UriBuilder(other.Urls.Single()) { Scheme = "ws", Path = "/hub" }.Uri, cancellationToken);
                await client.SendAsync("{\"protocol\":\"json\",\"version\":1}\u001e"u8.ToArray(), WebSocketMessageType.Text, endOfMessage: true, cancellationToken);
                if (await ReadAsync(client, cancellationToken) is not ["{}"])
                    throw new InvalidOperationException("The hub refused the handshake.");
                await other.Services.GetRequiredService<Entrance>().Joined.Task.WaitAsync(cancellationToken);
                _ = ReadAllAsync(client, services.GetRequiredService<Arrivals>());
            },
            AfterAsync = async () =>
            {
                client.Dispose();
                await other.DisposeAsync();
            },
        };
    }

    private static WebApplication BuildOther(Servers servers, string prefix)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        Register(builder.Services, OtherNode, servers, prefix);
        var application = builder.Build();
        application.Urls.Add("http://127.0.0.1:0");
        application.MapHub<MatrixHub>("/hub");
        return application;
    }

    private static void Register(IServiceCollection services, int node, Servers servers, string prefix)
    {
        services.AddSingleton<Entrance>();
        services.AddBatchKit(options => options.Node = node);
        services.AddSignalR().AddBatchKit(buffer => buffer
            .UseRedis(options => (options.Configuration, options.Prefix) = (RedisWays.AddressOf(servers), prefix))
            .ReceiveFromRedis(static provider => provider.GetRequiredService<SignalRTransport>()));
    }

    /// <summary>Passes on the texts of invocations. SignalR's own client needs newer versions of what the packages stand on than their lowest.</summary>
    private static async Task ReadAllAsync(ClientWebSocket client, Arrivals arrivals)
    {
        while (client.State == WebSocketState.Open)
        {
            foreach (var record in await ReadAsync(client, CancellationToken.None))
            {
                using var message = JsonDocument.Parse(record);
                if (message.RootElement.TryGetProperty("arguments", out var arguments))
                    arrivals.Add(arguments[0].GetString()!);
            }
        }
    }

    /// <summary>Reads one WebSocket message, and returns its records.</summary>
    private static async Task<string[]> ReadAsync(ClientWebSocket client, CancellationToken cancellationToken)
    {
        var bytes = new ArrayBufferWriter<byte>();
        ValueWebSocketReceiveResult part;
        do
        {
            part = await client.ReceiveAsync(bytes.GetMemory(4096), cancellationToken);
            bytes.Advance(part.Count);
        }
        while (!part.EndOfMessage);
        return Encoding.UTF8.GetString(bytes.WrittenSpan).Split('\u001e', StringSplitOptions.RemoveEmptyEntries);
    }

    private sealed class Entrance
    {
        public TaskCompletionSource Joined { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);
    }

    private sealed class MatrixHub(Entrance entrance) : Hub
    {
        public override Task OnConnectedAsync()
        {
            entrance.Joined.SetResult();
            return Task.CompletedTask;
        }
    }
}
