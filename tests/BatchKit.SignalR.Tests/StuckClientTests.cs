using BatchKit.SignalR.Tests.Support;
using Microsoft.AspNetCore.SignalR;

namespace BatchKit.SignalR.Tests;

/// <summary>A client that does not read costs the others nothing that lasts.</summary>
public sealed class StuckClientTests
{
    private static readonly string Filler = new('x', 2000);

    [Fact]
    public async Task A_client_that_does_not_read_is_cut_and_the_others_get_everything()
    {
        await using var server = await HubServer.StartAsync(options: options => options.StuckAfter = TimeSpan.FromSeconds(2));
        using var stuck = await RawClient.ConnectAsync(server.Address);
        await using var first = await HubClientConnection.ConnectAsync(server.Address);
        await using var second = await HubClientConnection.ConnectAsync(server.Address, isBinary: true);
        await Until.TrueAsync(() => server.Connections == 3);

        var sent = new List<string>();
        await Until.TrueAsync(async () =>
        {
            for (var message = 0; message < 200; message++)
            {
                sent.Add($"{sent.Count} {Filler}");
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, sent[^1]);
            }

            return server.Counters.CutClients > 0;
        });

        await server.FlushAsync(first, second);
        Assert.Equal(sent, first.Texts);
        Assert.Equal(sent, second.Texts);
        Assert.Equal(1, server.Counters.CutClients);
        await Until.TrueAsync(() => server.Connections == 2);
    }

    [Fact]
    public async Task A_scope_above_the_limit_reaches_a_client_that_reads()
    {
        await using var server = await HubServer.StartAsync(options: options => options.MaxQueuedBytes = 4096);
        await using var client = await HubClientConnection.ConnectAsync(server.Address);

        await using (server.Output.BeginBufferingScope())
        {
            for (var number = 0; number < 2000; number++)
                await server.Hub.Clients.All.SendAsync(TestHub.Receive, $"{number} {Filler}");
        }

        await Until.TrueAsync(() => client.Texts.Length == 2000);
        Assert.Equal(Enumerable.Range(0, 2000).Select(static number => $"{number} {Filler}"), client.Texts);
        Assert.Equal(0, server.Counters.CutClients);
    }
}
