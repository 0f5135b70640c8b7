using System.Net;
using BatchKit.Testing;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>What a test wants of its host.</summary>
internal sealed class WebSocketHostSetup
{
    public BroadcastOptions Options { get; init; } = new();

    public WebSocketEndpointOptions Endpoint { get; init; } = new();

    /// <summary>By default a clock that stands still: no time limit ends before a client on a busy machine has come so far.</summary>
    public TimeProvider TimeProvider { get; init; } = new ManualTimeProvider();

    public Func<ClientConnection, IOutputBuffer, EchoHandler> Handlers { get; init; } = (connection, output) => new EchoHandler(connection, output);

    public Action<IWebHostBuilder> Server { get; init; } = Kestrel(listen => listen.Protocols = HttpProtocols.Http1);

    /// <summary>Settings of the application's configuration.</summary>
    public Dictionary<string, string?> Configuration { get; } = [];

    public Action<IServiceCollection> Services { get; init; } = _ => { };

    public Action<WebApplication> Before { get; init; } = _ => { };

    /// <summary>A Kestrel on loopback, on any port.</summary>
    public static Action<IWebHostBuilder> Kestrel(Action<ListenOptions> listen) =>
        server => server.UseKestrelCore().ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, port: 0, listen));
}
