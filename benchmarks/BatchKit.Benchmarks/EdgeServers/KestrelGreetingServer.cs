using System.Net;
using System.Net.WebSockets;
using System.Text;
using BatchKit.Benchmarks.FanoutServers;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Http;
using Microsoft.AspNetCore.Server.Kestrel.Transport.Sockets;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Benchmarks.EdgeServers;

/// <summary>Kestrel's own WebSockets: each is accepted, greeted, and read until it ends.</summary>
internal sealed class KestrelGreetingServer(Arrivals arrivals) : IEdgeServer
{
    private static readonly byte[] Greeting = Encoding.UTF8.GetBytes(GreetingHandler.Greeting);

    public async Task<int> StartAsync(int port)
    {
        var application = EdgeApplication.Build(port);
        application.UseWebSockets(new WebSocketOptions { KeepAliveInterval = Timeout.InfiniteTimeSpan });
        application.Map("/socket", ServeAsync);
        return await EdgeApplication.StartAsync(application);
    }

    private async Task ServeAsync(HttpContext context)
    {
        using var socket = await context.WebSockets.AcceptWebSocketAsync();
        arrivals.Add();
        await socket.SendAsync(Greeting, WebSocketMessageType.Text, endOfMessage: true, context.RequestAborted);
        try
        {
            await socket.ReceiveAsync(Memory<byte>.Empty, context.RequestAborted);
        }
        catch (Exception end) when (end is WebSocketException or OperationCanceledException)
        {
            // The load is gone.
        }
    }
}

/// <summary>A web application on a port of this machine, which logs nothing and queues as many clients as BatchKit's listener.</summary>
internal static class EdgeApplication
{
    private const int Backlog = 4096;
    private const int MaxConnections = 100_000;

    public static WebApplication Build(int port)
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.ConfigureKestrel(options =>
        {
            options.Limits.MaxConcurrentConnections = MaxConnections;
            options.Listen(IPAddress.Loopback, port);
        });
        builder.Services.Configure<SocketTransportOptions>(options => options.Backlog = Backlog);
        return builder.Build();
    }

    public static Task<int> StartAsync(WebApplication application) => LoopbackApplication.StartAsync(application);
}
