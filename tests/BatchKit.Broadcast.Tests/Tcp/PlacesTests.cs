using System.Net;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class PlacesTests
{
    [Fact]
    public async Task No_more_come_in_at_once_than_there_are_places()
    {
        const int places = 10;
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxConnections = places, TurnAwayMessage = "Full.\n" });

        var clients = await Task.WhenAll(Enumerable.Range(0, 4 * places).Select(_ => LineClient.ConnectAsync(server.EndPoint)));
        var answers = await Task.WhenAll(clients.Select(AskAsync));

        Assert.Equal(places, answers.Count(answer => answer == "in"));
        Assert.Equal(3 * places, answers.Count(answer => answer == "Full."));
        await LeaveAsync(server, clients);
    }

    [Fact]
    public async Task No_more_come_in_from_one_address_than_it_has_places()
    {
        const int places = 5;
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxConnectionsPerAddress = places, TurnAwayMessage = "Full.\n" });
        IPAddress[] addresses = [IPAddress.Parse("127.0.0.1"), IPAddress.Parse("127.0.0.2"), IPAddress.Parse("127.0.0.3")];

        var clients = await Task.WhenAll(Enumerable.Range(0, 12 * places).Select(index => LineClient.ConnectAsync(server.EndPoint, addresses[index % 3])));
        var answers = await Task.WhenAll(clients.Select(AskAsync));

        for (var address = 0; address < 3; address++)
            Assert.Equal(places, answers.Where((answer, index) => index % 3 == address && answer == "in").Count());
        Assert.Equal(9 * places, answers.Count(answer => answer == "Full."));
        await LeaveAsync(server, clients);
    }

    [Fact]
    public async Task A_place_that_was_left_is_free_again()
    {
        await using var server = await TcpServer.StartAsync(new BroadcastOptions { MaxConnections = 1, MaxConnectionsPerAddress = 1 });

        for (var round = 0; round < 20; round++)
        {
            using var client = await LineClient.ConnectAsync(server.EndPoint);
            Assert.Equal("in", await AskAsync(client));
            using var second = await LineClient.ConnectAsync(server.EndPoint);
            Assert.Null(await second.ReadLineAsync());
            client.Dispose();
            await server.WhenEmptyAsync();
        }
    }

    private static async Task<string?> AskAsync(LineClient client)
    {
        try
        {
            await client.SendAsync("in\n");
            return await client.ReadLineAsync();
        }
        catch (IOException)
        {
            // Who is turned away may already be cut off.
            return await client.ReadLineAsync();
        }
    }

    private static async Task LeaveAsync(TcpServer server, LineClient[] clients)
    {
        foreach (var client in clients)
            client.Dispose();
        await server.WhenEmptyAsync();
    }
}
