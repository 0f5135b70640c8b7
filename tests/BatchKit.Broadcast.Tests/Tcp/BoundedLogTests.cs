using System.Net;
using BatchKit.Diagnostics;
using BatchKit.Testing;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast.Tests.Tcp;

/// <summary>What clients can repeat is logged once a period.</summary>
public sealed class BoundedLogTests
{
    [Fact]
    public async Task Handlers_that_fail_for_many_clients_make_one_line()
    {
        const int handlerFailed = 2304;
        var clients = HostileClients.Of(500);
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxConnectionsPerAddress = 1000 });
        server.OnRecord = (_, _, _) => throw new InvalidOperationException("A stranger's line.");

        for (var client = 0; client < clients; client++)
        {
            using var stranger = await LineClient.ConnectAsync(server.EndPoint);
            await stranger.SendAsync("a line\n");
            await stranger.ReadToEndAsync();
        }

        await server.WhenEmptyAsync();
        Assert.Single(server.Log.Entries, entry => entry.Id == handlerFailed);
    }

    [Fact]
    public async Task Clients_that_are_turned_away_make_one_line_that_names_the_limits()
    {
        const int turnedAway = 2309;
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxConnections = 2, TurnAwayMessage = "Full.\n" });
        using var one = await LineClient.ConnectAsync(server.EndPoint);
        using var two = await LineClient.ConnectAsync(server.EndPoint);
        await Until.TrueAsync(() => server.Transport.Connections.Places == 2);

        for (var client = 0; client < HostileClients.Of(500); client++)
        {
            using var stranger = await LineClient.ConnectAsync(server.EndPoint);
            Assert.Equal("Full.", await stranger.ReadLineAsync());
        }

        var (_, _, line) = Assert.Single(server.Log.Entries, entry => entry.Id == turnedAway);
        Assert.Contains("MaxConnections (2)", line, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Clients_that_do_not_establish_their_connection_make_one_warning_a_minute_with_their_number()
    {
        const int handshakeFailed = 2303;
        var clock = new ManualTimeProvider();
        await using var server = await TcpServer.StartAsync(configure: static listener => listener.UseProxyProtocol = true, clock: clock);

        for (var client = 0; client < 10; client++)
            await ComeAsync();
        var first = Assert.Single(server.Log.Entries, entry => entry.Id == handshakeFailed);
        clock.Advance(TimeSpan.FromMinutes(1));
        await ComeAsync();

        Assert.Equal(LogLevel.Warning, first.Level);
        Assert.Contains("it is not a trusted proxy. Such clients since the last such line: 1.", first.Text, StringComparison.Ordinal);
        Assert.Equal(2, server.Log.Count(handshakeFailed));
        Assert.Contains("Such clients since the last such line: 10.", server.Log.Entries.Last(entry => entry.Id == handshakeFailed).Text, StringComparison.Ordinal);

        async Task ComeAsync()
        {
            using var stranger = await LineClient.ConnectAsync(server.EndPoint);
            await stranger.ReadToEndAsync();
            await server.WhenEmptyAsync();
        }
    }

    [Fact]
    public async Task A_stop_blames_no_client_that_is_about_to_establish_its_connection()
    {
        var clock = new ManualTimeProvider();
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { TrustedProxies = { new IPNetwork(IPAddress.Loopback, 32) } }, static listener => listener.UseProxyProtocol = true, clock);
        using var proxy = await LineClient.ConnectAsync(server.EndPoint);
        await clock.WaitForTimersAsync(2);

        await server.Listener.StopAsync(CancellationToken.None).WithinDeadline();

        Assert.Equal("", await proxy.ReadToEndAsync());
        Assert.DoesNotContain(server.Log.Entries, static entry => entry.Level >= LogLevel.Warning);
    }

    [Fact]
    public void An_origin_that_a_stranger_wrote_can_not_write_lines_into_the_log()
    {
        var log = new LogCollector();
        var clock = new ManualTimeProvider();

        Log.OriginRefused(log, new LogThrottle(clock), "https://evil.example\r\nInformation: all is well");
        Log.OriginRefused(log, new LogThrottle(clock), "https://evil.example");

        Assert.DoesNotContain("all is well", log.Text, StringComparison.Ordinal);
        Assert.Contains("https://evil.example", log.Text, StringComparison.Ordinal);
    }
}
