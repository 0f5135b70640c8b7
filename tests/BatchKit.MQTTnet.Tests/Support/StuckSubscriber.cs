using System.Net.Sockets;
using System.Text;

namespace BatchKit.MQTTnet.Tests.Support;

/// <summary>A client that subscribes to everything and then does not read, until it is told to.</summary>
internal sealed class StuckSubscriber : IDisposable
{
    // SUBSCRIBE to # at QoS 0.
    private static readonly byte[] Subscribe = [0x82, 6, 0, 1, 0, 1, (byte)'#', 0];

    private readonly Socket _socket = new(SocketType.Stream, ProtocolType.Tcp) { ReceiveBufferSize = 4096 };

    public static async Task<StuckSubscriber> StartAsync(TestServer server, string clientId = "stuck")
    {
        var subscriber = new StuckSubscriber();
        await subscriber._socket.ConnectAsync(server.EndPoint);
        await subscriber._socket.SendAsync(Connect(clientId));
        await subscriber.ReadAsync(4);
        await subscriber._socket.SendAsync(Subscribe);
        await subscriber.ReadAsync(5);
        return subscriber;
    }

    /// <summary>Reads until nothing waits for it.</summary>
    public async Task ReadUntilQuietAsync(TestServer server)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        var buffer = new byte[64 * 1024];
        while (await PendingAsync(server) > 0)
        {
            if (_socket.Available > 0)
                await _socket.ReceiveAsync(buffer, deadline.Token);
            else
                await Task.Delay(1, deadline.Token);
        }
    }

    public void Dispose() => _socket.Dispose();

    // CONNECT of MQTT 3.1.1 with a clean session and no keep-alive.
    private static byte[] Connect(string clientId) => [0x10, (byte)(12 + clientId.Length), 0, 4, .. "MQTT"u8, 4, 2, 0, 0, 0, (byte)clientId.Length, .. Encoding.ASCII.GetBytes(clientId)];

    private static async Task<long> PendingAsync(TestServer server) => (await server.Server.GetClientsAsync()).Single(client => client.Id == "stuck").Session.PendingApplicationMessagesCount;

    private async Task ReadAsync(int count)
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        var buffer = new byte[count];
        for (var read = 0; read < count;)
            read += await _socket.ReceiveAsync(buffer.AsMemory(read), deadline.Token);
    }
}
