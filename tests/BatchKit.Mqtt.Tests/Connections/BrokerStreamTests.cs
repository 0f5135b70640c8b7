using System.Buffers.Binary;
using System.Net;
using System.Net.Sockets;
using System.Net.WebSockets;
using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

/// <summary>What is read of a packet that has not come to its end.</summary>
public sealed class BrokerStreamTests : IDisposable
{
    private const int FrameBytes = 1 << 20;

    private readonly Socket _socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly Socket _peer;

    public BrokerStreamTests()
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        _socket.Connect(listener.LocalEndpoint);
        _peer = listener.AcceptSocket();
    }

    public void Dispose()
    {
        _socket.Dispose();
        _peer.Dispose();
    }

    [Fact]
    public async Task A_part_of_a_frame_of_a_WebSocket_is_read_before_the_rest_has_come()
    {
        using var webSocket = WebSocket.CreateFromStream(new NetworkStream(_socket), new WebSocketCreationOptions());
        using var stream = new BrokerStream(_socket, WebSocketStream.Create(webSocket, WebSocketMessageType.Binary), webSocket);
        await SendPartAsync(10_000);

        var bytes = await stream.ReadAsync(new byte[FrameBytes]).AsTask().WithinDeadline();

        Assert.InRange(bytes, 1, 10_000);
    }

    private async Task SendPartAsync(int bytes)
    {
        var part = new byte[10 + bytes];
        (part[0], part[1]) = (0x82, 127);
        BinaryPrimitives.WriteInt64BigEndian(part.AsSpan(2), FrameBytes);
        await _peer.SendAsync(part).WithinDeadline();
    }
}
