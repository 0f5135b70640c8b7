using System.Net;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>A Kestrel with one mapped WebSocket endpoint, whose clients are answered what they send.</summary>
internal sealed class WebSocketHost : IAsyncDisposable
{
    private readonly WebApplication _application;

    private WebSocketHost(WebApplication application, BroadcastTransport transport, OutputBuffer output)
    {
        _application = application;
        Transport = transport;
        Output = output;
    }

    public BroadcastTransport Transport { get; }

    public OutputBuffer Output { get; }

    public Uri Address => new(_application.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!.Addresses.First());

    public IPEndPoint EndPoint => new(IPAddress.Loopback, Address.Port);

    public Uri WebSocketAddress => new UriBuilder(Address) { Scheme = Address.Scheme == "https" ? "wss" : "ws", Path = "/ws" }.Uri;

    public static async Task<WebSocketHost> StartAsync(WebSocketHostSetup? setup = null)
    {
        setup ??= new WebSocketHostSetup();
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseKestrelCore().ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, port: 0, setup.Listen));
        setup.Services(builder.Services);
        var transport = new BroadcastTransport(setup.Options, timeProvider: setup.TimeProvider);
        var output = new OutputBuffer(transport);
        var application = builder.Build();
        setup.Before(application);
        application.MapBatchKitWebSockets("/ws", transport, connection => setup.Handlers(connection, output), setup.Endpoint, output);
        await application.StartAsync();
        return new WebSocketHost(application, transport, output);
    }

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await Transport.DisposeAsync();
        await _application.StopAsync(new CancellationToken(canceled: true));
        await _application.DisposeAsync();
    }
}
