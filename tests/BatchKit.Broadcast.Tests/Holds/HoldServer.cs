using System.Collections.Concurrent;
using System.Net;
using BatchKit.Broadcast.Tests.Clients;
using BatchKit.Testing;
using Microsoft.AspNetCore.Builder;
using Microsoft.AspNetCore.Hosting;
using Microsoft.AspNetCore.Hosting.Server;
using Microsoft.AspNetCore.Hosting.Server.Features;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Holds;

/// <summary>A server with all three doors open, as an application has it: a buffer over a transport, two listeners and a WebSocket endpoint.</summary>
internal sealed class HoldServer : IAsyncDisposable
{
    private readonly WebApplication _application;
    private readonly BroadcastListener _tcp;
    private readonly BroadcastListener _telnet;
    private readonly ConcurrentDictionary<int, TaskCompletionSource<ClientConnection>> _clients = new();
    private readonly ConcurrentDictionary<ClientConnection, TaskCompletionSource<DisconnectReason>> _endings = new();

    private readonly Func<HoldServer, ClientConnection, IConnectionHandler> _handlers;

    private HoldServer(BroadcastOptions options, TimeProvider clock, int node, Func<HoldServer, ClientConnection, IConnectionHandler> handlers)
    {
        _handlers = handlers;
        BufferClock = new ManualTimeProvider();
        Transport = new BroadcastTransport(options, node, clock);
        Output = new OutputBuffer(Transport, timeProvider: BufferClock);
        _tcp = Listener(ClientProtocol.Tcp, clock);
        _telnet = Listener(ClientProtocol.Telnet, clock);
        var builder = WebApplication.CreateSlimBuilder();
        builder.Logging.ClearProviders();
        builder.WebHost.UseKestrelCore().ConfigureKestrel(kestrel => kestrel.Listen(IPAddress.Loopback, port: 0));
        _application = builder.Build();
        _application.MapBatchKitWebSockets("/ws", Transport, Handle, output: Output);
    }

    public BroadcastTransport Transport { get; }

    public OutputBuffer Output { get; }

    /// <summary>The buffer's clock: it stands still, so that idle handles stay until a test moves it.</summary>
    public ManualTimeProvider BufferClock { get; }

    /// <summary>Starts a server; by default without a limit for each address, because all clients of a test have one address, and with a clock that stands still: on a busy machine a thousand
    /// clients take longer than the server waits for one that does not read.</summary>
    public static async Task<HoldServer> StartAsync(
        BroadcastOptions? options = null, TimeProvider? clock = null, int node = 0, Func<HoldServer, ClientConnection, IConnectionHandler>? handlers = null)
    {
        options ??= new BroadcastOptions();
        options.MaxConnectionsPerAddress ??= options.MaxConnections;
        var server = new HoldServer(options, clock ?? new ManualTimeProvider(), node, handlers ?? ((server, connection) => new HoldHandler(server, connection)));
        await server._tcp.StartAsync(CancellationToken.None);
        await server._telnet.StartAsync(CancellationToken.None);
        await server._application.StartAsync();
        return server;
    }

    /// <summary>Connects a client, which tells its number; returns when the server knows it.</summary>
    public async Task<(TestClient Client, ClientConnection Connection)> ConnectAsync(int number, ClientProtocol protocol, Action<string> take, bool isSmall = false)
    {
        var client = await TestClient.ConnectAsync(protocol, EndPointFor(protocol), take, isSmall).WithinDeadline();
        await client.SendAsync($"{number}").WithinDeadline();
        return (client, await Announced(number).Task.WithinDeadline());
    }

    /// <summary>Connects a client that never reads.</summary>
    public async Task<(DeafClient Client, ClientConnection Connection)> ConnectDeafAsync(int number, ClientProtocol protocol, bool isSmall = true)
    {
        var client = await DeafClient.ConnectAsync(protocol, EndPointFor(protocol), isSmall).WithinDeadline();
        await client.SendAsync($"{number}");
        return (client, await Announced(number).Task.WithinDeadline());
    }

    public IPEndPoint EndPointFor(ClientProtocol protocol) => protocol switch
    {
        ClientProtocol.Tcp => _tcp.EndPoint,
        ClientProtocol.Telnet => _telnet.EndPoint,
        _ => new IPEndPoint(IPAddress.Loopback, new Uri(_application.Services.GetRequiredService<IServer>().Features.Get<IServerAddressesFeature>()!.Addresses.First()).Port),
    };

    /// <summary>Completes with the reason when a connection's handler has ended.</summary>
    public Task<DisconnectReason> EndOf(ClientConnection connection) => Ending(connection).Task;

    /// <summary>Stops as an application does: nobody new, what waits is sent, everybody gets the goodbye.</summary>
    public async Task StopAsync()
    {
        await _tcp.StopAsync(CancellationToken.None);
        await _telnet.StopAsync(CancellationToken.None);
        await Output.StopAsync(CancellationToken.None);
        await Transport.DrainAsync(CancellationToken.None);
    }

    public async ValueTask DisposeAsync()
    {
        await Output.DisposeAsync();
        await _tcp.DisposeAsync();
        await _telnet.DisposeAsync();
        await Transport.DisposeAsync();
        await _application.StopAsync();
        await _application.DisposeAsync();
    }

    internal void Announce(int number, ClientConnection connection) => Announced(number).SetResult(connection);

    internal void End(ClientConnection connection, DisconnectReason reason) => Ending(connection).SetResult(reason);

    private BroadcastListener Listener(ClientProtocol protocol, TimeProvider clock) =>
        new(Transport, new BroadcastListenerOptions { Protocol = protocol, EndPoint = new IPEndPoint(IPAddress.Loopback, 0), FiltersText = true }, Handle, Output, clock);

    private IConnectionHandler Handle(ClientConnection connection) => _handlers(this, connection);

    private TaskCompletionSource<ClientConnection> Announced(int number) =>
        _clients.GetOrAdd(number, _ => new TaskCompletionSource<ClientConnection>(TaskCreationOptions.RunContinuationsAsynchronously));

    private TaskCompletionSource<DisconnectReason> Ending(ClientConnection connection) =>
        _endings.GetOrAdd(connection, _ => new TaskCompletionSource<DisconnectReason>(TaskCreationOptions.RunContinuationsAsynchronously));
}
