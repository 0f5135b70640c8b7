using BatchKit.Benchmarks.FanoutServers;
using BatchKit.Broadcast;

namespace BatchKit.Benchmarks.IdleServers;

/// <summary>BatchKit. Each client joins one group, and is silent.</summary>
internal sealed class IdleBatchKitServer : IFanoutServer
{
    private const int MaxConnections = 100_000;

    private static readonly OutputHandle Everybody = OutputHandle.Named(FanoutCrowd.Everybody);

    // A client to which nothing is written for this time costs the buffer nothing any more. A minute by default, which no one should wait for here.
    private static readonly TimeSpan HandleIdleTimeout = TimeSpan.FromSeconds(1);

    private readonly BroadcastTransport _transport = new(new BroadcastOptions { KeepAliveInterval = null, MaxConnections = MaxConnections, MaxConnectionsPerAddress = MaxConnections });
    private readonly OutputBuffer _output;
    private readonly IFanoutDoor _door;
    private int _clients;

    public IdleBatchKitServer(ClientProtocol protocol)
    {
        _output = new OutputBuffer(_transport, new OutputBufferOptions { HandleIdleTimeout = HandleIdleTimeout });
        _door = protocol == ClientProtocol.WebSocket ? new WebSocketDoor(_transport, Create) : new TcpDoor(_transport, Create, protocol);
    }

    public int Clients => Volatile.Read(ref _clients);

    public Task<int> StartAsync() => _door.StartAsync();

    public void Send(FanoutWorkload workload) => _output.Write(Everybody, Payload.Encoded);

    public async ValueTask DisposeAsync()
    {
        await _output.DisposeAsync();
        await _transport.DisposeAsync();
        await _door.DisposeAsync();
    }

    private Handler Create(ClientConnection connection) => new(this, connection);

    private sealed class Handler(IdleBatchKitServer server, ClientConnection connection) : IConnectionHandler
    {
        public ValueTask StartAsync(CancellationToken cancellationToken)
        {
            server._output.Write(connection.Handle, ControlMessage.JoinGroup(FanoutCrowd.Everybody));
            Interlocked.Increment(ref server._clients);
            return default;
        }

        public ValueTask ReceiveAsync(ReadOnlyMemory<ReceivedRecord> records, CancellationToken cancellationToken) => default;

        public ValueTask EndAsync(DisconnectReason reason)
        {
            Interlocked.Decrement(ref server._clients);
            return default;
        }
    }
}
