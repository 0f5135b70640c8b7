using BatchKit.Diagnostics;
using BatchKit.Testing;

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
