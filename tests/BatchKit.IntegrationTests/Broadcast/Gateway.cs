using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading.Channels;
using BatchKit.Broadcast;
using BatchKit.RabbitMQ;
using BatchKit.Transports;

namespace BatchKit.IntegrationTests.Broadcast;

/// <summary>A node that has clients and takes their output off the broker.</summary>
internal sealed class Gateway : IAsyncDisposable
{
    private readonly RabbitMqReceiver _receiver;
    private readonly BroadcastListener _listener;
    private readonly Channel<ClientConnection> _arrived = Channel.CreateUnbounded<ClientConnection>();
    private readonly ConcurrentBag<TcpClient> _clients = [];

    private Gateway(RabbitMqOptions options, int node)
    {
        Transport = new BroadcastTransport(node: node);
        _receiver = new RabbitMqReceiver(options, node, new BatchReceiver(Transport));
        _listener = new BroadcastListener(Transport, new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, Handle);
    }

    public BroadcastTransport Transport { get; }

    public static async Task<Gateway> StartAsync(RabbitMqOptions options, int node)
    {
        var gateway = new Gateway(options, node);
        await gateway._receiver.StartAsync(CancellationToken.None).WithinDeadline();
        await gateway._listener.StartAsync(CancellationToken.None);
        return gateway;
    }

    public async Task<GatewayClient> ConnectAsync()
    {
        var client = new TcpClient();
        _clients.Add(client);
        await client.ConnectAsync(_listener.EndPoint).WithinDeadline();
        var connection = await _arrived.Reader.ReadAsync().WithinDeadline();
        return new GatewayClient(connection.Handle, new StreamReader(client.GetStream(), Encoding.UTF8));
    }

    public async ValueTask DisposeAsync()
    {
        await _receiver.DisposeAsync();
        await _listener.DisposeAsync();
        await Transport.DisposeAsync();
        foreach (var client in _clients)
            client.Dispose();
    }

    private SilentHandler Handle(ClientConnection connection)
    {
        _arrived.Writer.TryWrite(connection);
        return new SilentHandler();
    }
}
