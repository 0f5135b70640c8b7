using System.Net;
using System.Net.Sockets;
using BatchKit.Broadcast;
using BatchKit.Broadcast.Telnet;
using BatchKit.Testing;
using Microsoft.AspNetCore.Builder;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Errors;

/// <summary>Errors of the clients' hop.</summary>
internal static class BroadcastErrors
{
    public static async Task CollectAsync(ErrorCollector errors)
    {
        errors.Catch("MapBatchKitWebSockets without UseBroadcast", static () => MapWithout());
        await errors.CatchAsync("Listen without UseBroadcast", static () => ListenWithoutAsync());
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxConnections = 1 });
        await using var only = transport.Attach(new MemoryStream());
        errors.Catch("More connections than allowed", () => transport.Attach(new MemoryStream()));
        await using var listener = new BroadcastListener(transport, new BroadcastListenerOptions(), static _ => null!);
        errors.Catch("The end point before the start", () => _ = listener.EndPoint);
        await CollectPortInUseAsync(errors, transport);
        errors.Catch("A text that MSDP can't carry", static () => TelnetMessages.WriteMsdp("name", "a\u0001"));
    }

    private static async Task CollectPortInUseAsync(ErrorCollector errors, BroadcastTransport transport)
    {
        using var other = new TcpListener(IPAddress.Loopback, 0);
        other.Start();
        var endPoint = (IPEndPoint)other.LocalEndpoint;
        errors.Name(endPoint.Port, "PORT");
        await using var listener = new BroadcastListener(transport, new BroadcastListenerOptions { EndPoint = endPoint }, static _ => null!);
        await errors.CatchAsync("A port that another program has", () => listener.StartAsync(CancellationToken.None));
    }

    private static void MapWithout()
    {
        var builder = WebApplication.CreateSlimBuilder();
        builder.Services.AddBatchKit().UseLocal(static _ => new CollectingTransport());
        builder.Build().MapBatchKitWebSockets<Handler>("/play");
    }

    private static async Task ListenWithoutAsync()
    {
        var builder = Host.CreateEmptyApplicationBuilder(new HostApplicationBuilderSettings());
        builder.Services.AddBatchKit().UseLocal(static _ => new CollectingTransport()).Listen<Handler>(new BroadcastListenerOptions());
        using var host = builder.Build();
        await host.StartAsync();
    }

    private sealed class Handler(ClientConnection connection) : IConnectionHandler
    {
        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken)
        {
            connection.Close();
            return ValueTask.CompletedTask;
        }
    }
}
