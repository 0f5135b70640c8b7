using BatchKit.SignalR.Tests.Support;
using BatchKit.TestServers.Network;
using Microsoft.AspNetCore.SignalR;

namespace BatchKit.SignalR.Tests;

/// <summary>A connection that reconnects statefully counts messages, so that each needs a write.</summary>
public sealed class StatefulReconnectTests
{
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task All_messages_arrive_once_over_cuts(bool isBinary)
    {
        await using var server = await HubServer.StartAsync(reconnects: true);
        await using var proxy = TcpProxy.Start(server.Address.Host, server.Address.Port);
        await using var client = await HubClientConnection.ConnectAsync(new UriBuilder(server.Address) { Port = proxy.Port }.Uri, isBinary, reconnects: true);

        for (var round = 0; round < 3; round++)
        {
            // What is written while nothing is forwarded, is lost with the connection.
            proxy.Stall();
            await using (server.Output.BeginBufferingScope())
            {
                for (var number = 0; number < 100; number++)
                    await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{(round * 100) + number}");
            }

            await CutAsync(proxy);
            await client.WaitForAsync($"{(round * 100) + 99}");
        }

        await server.FlushAsync(client);
        Assert.Equal(Enumerable.Range(0, 300).Select(static number => $"{number}"), client.Texts);
        Assert.Equal(301, server.Counters.Writes);
    }

    [Fact]
    public async Task Messages_over_a_backplane_survive_cuts_too()
    {
        var bus = new FrameBus();
        await using var sender = await HubServer.StartAsync(bus.Join);
        await using var server = await HubServer.StartAsync(bus.Join, reconnects: true);
        await using var proxy = TcpProxy.Start(server.Address.Host, server.Address.Port);
        await using var client = await HubClientConnection.ConnectAsync(new UriBuilder(server.Address) { Port = proxy.Port }.Uri, reconnects: true);

        proxy.Stall();
        await using (sender.Output.BeginBufferingScope())
        {
            for (var number = 0; number < 100; number++)
                await sender.Hub.Clients.All.SendAsync(TestHub.Receive, $"{number}");
        }

        await Until.TrueAsync(() => server.Counters.Messages == 100);
        await CutAsync(proxy);
        await sender.FlushAsync(client);
        Assert.Equal(Enumerable.Range(0, 100).Select(static number => $"{number}"), client.Texts);
    }

    private static Task CutAsync(TcpProxy proxy)
    {
        var connections = proxy.AcceptedConnections;
        proxy.ResetAll();
        proxy.Resume();
        return Until.TrueAsync(() => proxy.AcceptedConnections > connections);
    }
}
