using System.Net;
using System.Net.Sockets;
using BatchKit.TestServers.Network;

namespace BatchKit.IntegrationTests.Network;

/// <summary>RabbitMQ opens its port for TLS behind the plain one: a test that began between the two was refused.</summary>
public sealed class ListeningPortsTests
{
    [Fact]
    public async Task A_server_has_started_when_its_last_port_listens()
    {
        var ports = FreePort.Take(2);
        using var first = Listen(ports[0]);

        var between = await ListeningPorts.AllOpenAsync("127.0.0.1", ports);
        using var last = Listen(ports[1]);
        var behind = await ListeningPorts.AllOpenAsync("127.0.0.1", ports);

        Assert.False(between);
        Assert.True(behind);
    }

    [Fact]
    public async Task A_port_that_the_server_has_not_got_is_not_waited_for()
    {
        var port = FreePort.Take(1)[0];
        using var listener = Listen(port);

        Assert.True(await ListeningPorts.AllOpenAsync("127.0.0.1", port, 0));
    }

    private static TcpListener Listen(int port)
    {
        var listener = new TcpListener(IPAddress.Loopback, port);
        listener.Start();
        return listener;
    }
}
