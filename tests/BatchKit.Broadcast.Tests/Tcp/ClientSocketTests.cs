using System.Net.Sockets;
using BatchKit.Broadcast.Tcp;
using BatchKit.Broadcast.Tests.Support;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class ClientSocketTests
{
    [Theory]
    [InlineData(60_000, 60, 15)]
    [InlineData(10, 1, 1)]
    [InlineData(86_400_000, 32_767, 21_600)]
    public async Task A_client_that_vanished_is_looked_for(int milliseconds, int seconds, int secondsBetween)
    {
        using var socket = await AcceptAsync();

        ClientSocket.Configure(socket, TimeSpan.FromMilliseconds(milliseconds), sendBufferBytes: null, isTelnet: false);

        Assert.True(socket.NoDelay);
        Assert.NotEqual(0, socket.GetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive));
        Assert.Equal(seconds, socket.GetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime));
        Assert.Equal(secondsBetween, socket.GetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveInterval));
    }

    [Fact]
    public async Task Without_an_interval_nobody_is_asked()
    {
        using var socket = await AcceptAsync();

        ClientSocket.Configure(socket, keepAliveInterval: null, sendBufferBytes: null, isTelnet: false);

        Assert.True(socket.NoDelay);
        Assert.Equal(0, socket.GetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive));
    }

    [Fact]
    public async Task The_systems_buffer_is_as_small_as_was_asked_for()
    {
        using var socket = await AcceptAsync();

        ClientSocket.Configure(socket, keepAliveInterval: null, sendBufferBytes: 8192, isTelnet: false);

        // Linux takes twice as much, for its own structures.
        Assert.InRange(socket.SendBufferSize, 8192, 2 * 8192);
    }

    private static async Task<Socket> AcceptAsync()
    {
        var (client, server) = await SocketPair.ConnectAsync();
        client.Dispose();
        return server;
    }
}
