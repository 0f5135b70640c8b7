using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Server.Kestrel.Core;
using Microsoft.Extensions.DependencyInjection;

namespace BatchKit.Broadcast.Tests.WebSockets;

/// <summary>What a test wants of its host.</summary>
internal sealed class WebSocketHostSetup
{
    public BroadcastOptions Options { get; init; } = new();

    public WebSocketEndpointOptions Endpoint { get; init; } = new();

    public TimeProvider TimeProvider { get; init; } = TimeProvider.System;

    public Func<ClientConnection, IOutputBuffer, IConnectionHandler> Handlers { get; init; } = (connection, output) => new EchoHandler(connection, output);

    public Action<ListenOptions> Listen { get; init; } = listen => listen.Protocols = HttpProtocols.Http1;

    public Action<IServiceCollection> Services { get; init; } = _ => { };

    public Action<WebApplication> Before { get; init; } = _ => { };
}
