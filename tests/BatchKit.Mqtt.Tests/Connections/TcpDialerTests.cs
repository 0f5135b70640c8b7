using System.Net;
using System.Net.Sockets;
using BatchKit.Mqtt.Connections;

namespace BatchKit.Mqtt.Tests.Connections;

public sealed class TcpDialerTests
{
    [Theory]
    [InlineData("127.0.0.1", "127.0.0.1")]
    [InlineData("localhost", "127.0.0.1")]
    [InlineData("::1", "::1")]
    public async Task The_address_that_answers_is_taken(string host, string listensOn)
    {
        var address = IPAddress.Parse(listensOn);
        Assert.SkipWhen(address.AddressFamily == AddressFamily.InterNetworkV6 && !CanListen(address), "There is no IPv6 loopback here.");
        using var listener = new TcpListener(address, port: 0);
        listener.Start();
        var port = ((IPEndPoint)listener.LocalEndpoint).Port;

        using var socket = await TcpDialer.ConnectAsync(host, port, Deadline.Time, TimeProvider.System, CancellationToken.None).WithinDeadline();

        Assert.Equal(new IPEndPoint(address, port), socket.RemoteEndPoint);
        Assert.True(socket.NoDelay);
    }

    private static bool CanListen(IPAddress address)
    {
        try
        {
            using var listener = new TcpListener(address, port: 0);
            listener.Start();
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }
}
