using System.Net;
using BatchKit.Broadcast;
using Microsoft.AspNetCore.Builder;

namespace BatchKit.Benchmarks.EdgeServers;

/// <summary>BatchKit's telnet listener with its own settings, but for the limit of an address: all clients are on this machine.</summary>
internal sealed class BatchKitTelnetServer(Arrivals arrivals) : IEdgeServer
{
    public async Task<int> StartAsync(int port)
    {
        var transport = EdgeTransport.Create();
        var output = new OutputBuffer(transport);
        var options = new BroadcastListenerOptions { Protocol = ClientProtocol.Telnet, EndPoint = new IPEndPoint(IPAddress.Loopback, port) };
        var listener = new BroadcastListener(transport, options, connection => new GreetingHandler(connection, output, new Arrivals()), output);

        // What the listener has accepted, as the bare loop counts; the handlers start later.
        arrivals.Follow(() => listener.Accepted);
        await listener.StartAsync(CancellationToken.None);
        return listener.EndPoint.Port;
    }
}

/// <summary>BatchKit's WebSockets under Kestrel.</summary>
internal sealed class BatchKitWebSocketServer(Arrivals arrivals) : IEdgeServer
{
    public async Task<int> StartAsync(int port)
    {
        var transport = EdgeTransport.Create();
        var output = new OutputBuffer(transport);
        var application = EdgeApplication.Build(port);
        application.MapBatchKitWebSockets("/socket", transport, connection => new GreetingHandler(connection, output, arrivals), options: null, output);
        return await EdgeApplication.StartAsync(application);
    }
}

/// <summary>Creates the transport of both.</summary>
internal static class EdgeTransport
{
    private const int MaxConnections = 100_000;

    public static BroadcastTransport Create() => new(new BroadcastOptions { MaxConnections = MaxConnections, MaxConnectionsPerAddress = MaxConnections });
}

/// <summary>Lets each client join a group, and greets it.</summary>
internal sealed class GreetingHandler(ClientConnection connection, IOutputBuffer output, Arrivals arrivals) : IConnectionHandler
{
    public const string Greeting = "Welcome!\n";

    public ValueTask StartAsync(CancellationToken cancellationToken)
    {
        arrivals.Add();
        using (output.BeginBufferingScope(connection.Handle))
        {
            output.Write(connection.Handle, ControlMessage.JoinGroup("everyone"));
            output.Write(connection.Handle, Greeting);
        }

        return default;
    }

    public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;
}
