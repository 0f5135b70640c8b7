using System.Net;
using System.Net.Sockets;
using BatchKit.TransportSpecification.Support;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class ListenerTests
{
    [Fact]
    public async Task Lines_are_echoed_in_order()
    {
        await using var transport = new BroadcastTransport();
        await using var output = new OutputBuffer(transport);
        await using var listener = new BroadcastListener(
            transport, new BroadcastListenerOptions { EndPoint = new IPEndPoint(IPAddress.Loopback, 0) }, connection => new EchoHandler(connection, output), output);
        await listener.StartAsync(CancellationToken.None);
        using var client = new TcpClient();
        await client.ConnectAsync(listener.EndPoint);

        await client.GetStream().WriteAsync("one\r\ntwo\nthr"u8.ToArray());
        await client.GetStream().WriteAsync("ee\n"u8.ToArray());

        var reader = new StreamReader(client.GetStream());
        Assert.Equal("one", await reader.ReadLineAsync().WithinDeadline());
        Assert.Equal("two", await reader.ReadLineAsync().WithinDeadline());
        Assert.Equal("three", await reader.ReadLineAsync().WithinDeadline());
    }
}
