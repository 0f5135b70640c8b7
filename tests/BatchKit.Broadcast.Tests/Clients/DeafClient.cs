using System.Net;
using System.Net.Sockets;
using System.Text;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Broadcast.Tests.WebSockets;

namespace BatchKit.Broadcast.Tests.Clients;

/// <summary>A client that sends and never reads. It costs its own process little more than a socket.</summary>
internal sealed class DeafClient : IDisposable
{
    private readonly Socket _socket;
    private readonly bool _isWebSocket;

    private DeafClient(Socket socket, bool isWebSocket)
    {
        _socket = socket;
        _isWebSocket = isWebSocket;
    }

    /// <param name="protocol">Its protocol.</param>
    /// <param name="endPoint">Where the server listens.</param>
    /// <param name="isSmall">As <see cref="SmallBuffers.Set"/> says. Such a client must not wait until the server has read what it sends.</param>
    public static async Task<DeafClient> ConnectAsync(ClientProtocol protocol, IPEndPoint endPoint, bool isSmall = true)
    {
        var socket = new Socket(endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        if (isSmall)
            SmallBuffers.Set(socket);
        await socket.ConnectAsync(endPoint);
        if (protocol == ClientProtocol.WebSocket)
        {
            await WebSocketHandshake.DoAsync(socket, endPoint);

            // The answer to the server's first ping: it then writes to the socket directly.
            await socket.SendAsync(RawFrame.Masked(RawFrame.Final | RawFrame.Pong, []));
        }

        return new DeafClient(socket, protocol == ClientProtocol.WebSocket);
    }

    public async Task SendAsync(string line)
    {
        var bytes = Encoding.UTF8.GetBytes(line);
        await SendAsync(_isWebSocket ? RawFrame.Masked(RawFrame.Final | RawFrame.Text, bytes) : [.. bytes, (byte)'\n'], CancellationToken.None).WithinDeadline();
    }

    /// <summary>Sends pings with a payload of two bytes.</summary>
    public async Task PingAsync(int pings)
    {
        const int pingsAtOnce = 1000;
        var some = Enumerable.Repeat(RawFrame.Masked(RawFrame.Final | RawFrame.Ping, "hi"u8), pingsAtOnce).SelectMany(ping => ping).ToArray();
        for (var sent = 0; sent < pings; sent += pingsAtOnce)
            await SendAsync(some, CancellationToken.None).WithinDeadline();
    }

    public async Task SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken cancellationToken)
    {
        while (!bytes.IsEmpty)
            bytes = bytes[await _socket.SendAsync(bytes, SocketFlags.None, cancellationToken)..];
    }

    public void Dispose() => _socket.Dispose();
}
