using System.Net;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class ProxiedClientTests
{
    private static readonly IPEndPoint Client = new(IPAddress.Parse("192.0.2.7"), 5000);

    [Theory]
    [InlineData(1, false)]
    [InlineData(2, false)]
    [InlineData(1, true)]
    [InlineData(2, true)]
    public async Task The_clients_own_address_is_known_and_what_follows_is_its_own(int version, bool isByteByByte)
    {
        await using var server = await StartAsync();
        using var proxy = await LineClient.ConnectAsync(server.EndPoint);
        byte[] bytes = [.. ProxyHeaders.Make(version, Client), .. "look\n"u8];

        foreach (var part in bytes.Chunk(isByteByByte ? 1 : bytes.Length))
            await proxy.SendAsync(part);

        Assert.Equal("look", await proxy.ReadLineAsync());
        Assert.Equal(Client, (await server.NextHandlerAsync()).Connection.RemoteEndPoint);
    }

    [Fact]
    public async Task A_proxys_own_connection_has_the_proxys_address()
    {
        await using var server = await StartAsync();
        using var proxy = await LineClient.ConnectAsync(server.EndPoint);

        await proxy.SendAsync((byte[])[.. ProxyHeaders.Local, .. "look\n"u8]);

        Assert.Equal("look", await proxy.ReadLineAsync());
        Assert.Equal(proxy.Socket.LocalEndPoint, (await server.NextHandlerAsync()).Connection.RemoteEndPoint);
    }

    [Fact]
    public async Task A_proxy_that_is_not_trusted_is_ended()
    {
        await using var server = await StartAsync();
        using var stranger = await LineClient.ConnectAsync(server.EndPoint, IPAddress.Parse("127.0.0.9"));

        Assert.Null(await stranger.ReadLineAsync());
        Assert.Contains("trusted", await server.LoggedAsync(2303));
        await server.WhenEmptyAsync();
    }

    [Theory]
    [InlineData("look at this\n")]
    [InlineData("PROXY TCP4 192.0.2.7 192.0.2.8 5000\r\n")]
    [InlineData("PROXY TCP4 192.0.2.7 192.0.2.8 5000 70000\r\n")]
    public async Task A_proxy_that_sends_no_header_is_ended(string start)
    {
        await using var server = await StartAsync();
        using var proxy = await LineClient.ConnectAsync(server.EndPoint);

        await proxy.SendAsync(start);

        await server.LoggedAsync(2303);
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task A_proxy_that_says_nothing_is_ended_at_the_limit()
    {
        var clock = new ManualTimeProvider();
        await using var server = await StartAsync(clock: clock);
        using var proxy = await LineClient.ConnectAsync(server.EndPoint);
        await proxy.SendAsync("PROXY ");

        await clock.WaitForTimersAsync(2);
        clock.Advance(new BroadcastOptions().HandshakeTimeout);

        Assert.Contains("too long", await server.LoggedAsync(2303));
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task Places_are_counted_by_the_clients_own_address()
    {
        await using var server = await StartAsync(places: 1);
        using var first = await LineClient.ConnectAsync(server.EndPoint);
        using var second = await LineClient.ConnectAsync(server.EndPoint);
        using var other = await LineClient.ConnectAsync(server.EndPoint);

        await first.SendAsync((byte[])[.. ProxyHeaders.Make(1, Client), .. "in\n"u8]);
        Assert.Equal("in", await first.ReadLineAsync());
        await second.SendAsync(ProxyHeaders.Make(1, Client));
        Assert.Equal("Full.", await second.ReadLineAsync());
        await other.SendAsync((byte[])[.. ProxyHeaders.Make(1, new IPEndPoint(IPAddress.Parse("192.0.2.8"), 1)), .. "in\n"u8]);
        Assert.Equal("in", await other.ReadLineAsync());

        first.Dispose();
        other.Dispose();
        await server.WhenEmptyAsync();
    }

    [Fact]
    public async Task TLS_comes_behind_the_header()
    {
        await using var server = await StartAsync(configure: listener => listener.Tls = Certificate.ForServer);
        using var proxy = await LineClient.ConnectAsync(server.EndPoint);

        await proxy.SendAsync(ProxyHeaders.Make(2, Client));
        using var client = await Certificate.SecureAsync(proxy);
        await client.SendAsync("look\n");

        Assert.Equal("look", await client.ReadLineAsync());
        var connection = (await server.NextHandlerAsync()).Connection;
        Assert.Equal((Client, true), (connection.RemoteEndPoint, connection.IsSecure));
    }

    private static Task<TcpServer> StartAsync(Action<BroadcastListenerOptions>? configure = null, TimeProvider? clock = null, int? places = null)
    {
        var options = new BroadcastOptions { MaxConnectionsPerAddress = places, TurnAwayMessage = "Full.\n", TrustedProxies = [IPNetwork.Parse("127.0.0.1/32")] };
        return TcpServer.StartAsync(
            options,
            listener =>
            {
                listener.UseProxyProtocol = true;
                configure?.Invoke(listener);
            },
            clock);
    }
}
