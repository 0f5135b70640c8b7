using System.Globalization;
using System.Net.Sockets;
using BatchKit.Benchmarks.Brokers;
using BatchKit.Benchmarks.Children;
using BatchKit.Broadcast;
using BatchKit.RabbitMQ;
using BatchKit.Transports;
using RabbitMQ.Client;

namespace BatchKit.Benchmarks.GroupGateways;

/// <summary><c>gateway node clients prefix routing</c>: a gateway with clients that count what they get, in a process of its own. The broker's address is the first command.</summary>
internal static class GatewayCommand
{
    private static long _memberBytes;

    public static async Task<int> RunAsync(int node, int clients, string prefix, bool byMembers)
    {
        var pipe = new ControlPipe();
        var address = BrokerAddress.From(new Uri(System.Text.Encoding.UTF8.GetString(pipe.Read())));
        var counted = new CountedSockets();
        var options = new RabbitMqOptions { ConnectionFactory = counted.CreateFactory(address), Prefix = prefix, RouteGroupsByMembers = byMembers, UnroutableGrace = TimeSpan.Zero };
        await using var transport = new BroadcastTransport(new BroadcastOptions { MaxConnections = clients, MaxConnectionsPerAddress = clients }, node);
        var first = 0L;
        for (var client = 0; client < clients; client++)
        {
            var handle = transport.Attach(CountAsync).Handle;
            first = client == 0 ? handle.Number : first;
        }

        await using var receiver = new RabbitMqReceiver(options, node, new BatchReceiver(transport));
        await receiver.StartAsync(CancellationToken.None);
        pipe.Reply(first);
        while (pipe.Read() is { IsEmpty: false })
        {
            pipe.Reply(receiver.GetStatistics().ReceivedFrames, counted.Bytes, Interlocked.Read(ref _memberBytes), transport.GetStatistics().Groups,
                !byMembers || receiver.Groups is { TakesAll: false } ? 1 : 0);
        }

        return 0;
    }

    private static ValueTask CountAsync(ReadOnlyMemory<byte> bytes, CancellationToken cancellationToken)
    {
        Interlocked.Add(ref _memberBytes, bytes.Length);
        return ValueTask.CompletedTask;
    }

    /// <summary>Counts what comes in over a connection to the broker.</summary>
    private sealed class CountedSockets
    {
        private long _bytes;

        public long Bytes => Interlocked.Read(ref _bytes);

        public ConnectionFactory CreateFactory(BrokerAddress address)
        {
            var parts = address.Host.Split(':');
            return new ConnectionFactory
            {
                HostName = parts[0],
                Port = int.Parse(parts[1], CultureInfo.InvariantCulture),
                UserName = address.UserName,
                Password = address.Password,
                VirtualHost = address.VirtualHost,
                AutomaticRecoveryEnabled = false,
                SocketFactory = family => new CountedClient(new Socket(family, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true }, this),
            };
        }

        private sealed class CountedClient : TcpClientAdapter
        {
            private readonly Socket _socket;
            private readonly CountedSockets _counted;

            public CountedClient(Socket socket, CountedSockets counted)
                : base(socket)
            {
                _socket = socket;
                _counted = counted;
            }

            public override NetworkStream GetStream() => new CountedStream(_socket, _counted);
        }

        private sealed class CountedStream(Socket socket, CountedSockets counted) : NetworkStream(socket)
        {
            public override async ValueTask<int> ReadAsync(Memory<byte> buffer, CancellationToken cancellationToken = default)
            {
                var read = await base.ReadAsync(buffer, cancellationToken);
                Interlocked.Add(ref counted._bytes, read);
                return read;
            }
        }
    }
}
