using System.Net;
using System.Threading.Channels;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.AspNetCore.TestHost;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>A Kestrel with one mapped WebSocket endpoint, whose clients are answered what they send.</summary>
internal sealed class WebSocketHost : IAsyncDisposable
{
    private readonly WebApplication _application;
    private readonly Channel<EchoHandler> _handlers;

    private WebSocketHost(WebApplication application, BroadcastTransport transport, OutputBuffer output, LogLines log, Channel<EchoHandler> handlers)
    {
        _handlers = handlers;
        Log = log;
        _application = application;
        Transport = transport;
        Output = output;
    }

    public BroadcastTransport Transport { get; }

    public OutputBuffer Output { get; }

    /// <summary>What the endpoint logs.</summary>
    public LogLines Log { get; }

    public Uri Address => new(_application.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!.Addresses.First());

    public TestServer TestServer => _application.GetTestServer();

    public IPEndPoint EndPoint => new(IPAddress.Loopback, Address.Port);

    public Uri WebSocketAddress => new UriBuilder(Address) { Scheme = Address.Scheme == "https" ? "wss" : "ws", Path = "/ws" }.Uri;

    public static async Task<WebSocketHost> StartAsync(WebSocketHostSetup? setup = null)
    {
        setup ??= new WebSocketHostSetup();
        var builder = WebApplication.CreateSlimBuilder();
        var log = new LogLines(typeof(BroadcastTransport).FullName!);
        builder.Logging.ClearProviders().SetMinimumLevel(LogLevel.Debug).AddProvider(log);
        foreach (var (key, value) in setup.Configuration)
            builder.Configuration[key] = value;
        setup.Server(builder.WebHost);
        setup.Services(builder.Services);
        var transport = new BroadcastTransport(setup.Options, timeProvider: setup.TimeProvider);
        var output = new OutputBuffer(transport);
        var application = builder.Build();
        setup.Before(application);
        var handlers = Channel.CreateUnbounded<EchoHandler>();
        application.MapBatchKitWebSockets(
            "/ws",
            transport,
            connection =>
            {
                var handler = setup.Handlers(connection, output);
                handlers.Writer.TryWrite(handler);
                return handler;
            },
            setup.Endpoint,
            output);
        await application.StartAsync();
        return new WebSocketHost(application, transport, output, log, handlers);
    }

    /// <summary>The handler of the next connection, when it has come.</summary>
    public Task<EchoHandler> HandlerAsync() => _handlers.Reader.ReadAsync().WithinDeadline();

    /// <summary>Waits until all connections have given back their places, also those of their addresses, which a handler that still runs keeps.</summary>
    public Task EveryoneGoneAsync() => Until.TrueAsync(() => Transport.Connections is { Places: 0, Addresses: 0 });

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await Transport.DisposeAsync();
        await _application.StopAsync(new CancellationToken(canceled: true));
        await _application.DisposeAsync();
    }
}
