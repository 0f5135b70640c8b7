using System.Net.Sockets;
using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.TestServers.Mud;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>One game, two gateways, over the real RabbitMQ.</summary>
[Trait("Lane", "slow: programs are started")]
public sealed class TwoGatewaysTests(RabbitMqFixture fixture)
{
    [Fact]
    public async Task A_rooms_line_is_published_once_for_both_gateways()
    {
        await using var mud = await TwoGateways.StartAsync(await fixture.GetAsync());
        using var ana = await LoginAsync(mud.First, "Ana");
        using var bob = await LoginAsync(mud.First, "Bob");
        using var cai = await LoginAsync(mud.Second, "Cai");
        using var dee = await LoginAsync(mud.Second, "Dee");
        var published = await mud.ListenAsync();

        await ana.AskAsync("say Hello");

        foreach (var other in new[] { bob, cai, dee })
            await other.ReadPastAsync("Ana says, \"Hello\"\r\n");
        Assert.Equal(1, await mud.CountAsync(published, "Ana says, "));
    }

    [Fact]
    public async Task Clients_of_a_killed_gateway_go_on_at_the_other()
    {
        await using var mud = await TwoGateways.StartAsync(await fixture.GetAsync());
        var lost = new[] { await LoginAsync(mud.First, "Ana"), await LoginAsync(mud.First, "Bob") };
        using var cai = await LoginAsync(mud.Second, "Cai");
        foreach (var client in lost.Append(cai))
            await client.SendAsync("north\r\nsay I am here.\r\n");
        foreach (var client in lost.Append(cai))
            await client.ReadPastAsync("You say, \"I am here.\"\r\n");

        mud.First.Kill();
        foreach (var client in lost)
        {
            await WaitForEndAsync(client);
            client.Dispose();
        }

        using var ana = await ReturnAsync(mud.Second, "Ana");
        using var bob = await ReturnAsync(mud.Second, "Bob");
        var published = await mud.ListenAsync();
        await ana.SendAsync("say Back again.\r\n");

        await bob.ReadPastAsync("Ana says, \"Back again.\"\r\n");
        await cai.ReadPastAsync("Ana says, \"Back again.\"\r\n");
        Assert.Equal(1, await mud.CountAsync(published, "Ana says, "));
    }

    [Fact]
    public async Task Who_comes_again_by_another_gateway_takes_over_and_the_first_connection_is_closed()
    {
        await using var mud = await TwoGateways.StartAsync(await fixture.GetAsync());
        using var first = await LoginAsync(mud.First, "Ana");

        using var second = await mud.Second.ConnectAsync();
        await second.ReadToPromptAsync();
        var arrival = await second.AskAsync("connect Ana");

        Assert.StartsWith("Welcome back, Ana.", arrival[0], StringComparison.Ordinal);
        Assert.Contains("You have come ashore by another way", await first.ReadToEndAsync(), StringComparison.Ordinal);
    }

    private static async Task<TelnetClient> LoginAsync(MudProcess gateway, string name)
    {
        var client = await gateway.ConnectAsync();
        await client.LoginAsync(name);
        return client;
    }

    /// <summary>Comes back under a name, and finds itself where it was.</summary>
    private static async Task<TelnetClient> ReturnAsync(MudProcess gateway, string name)
    {
        var client = await gateway.ConnectAsync();
        await client.ReadToPromptAsync();
        var arrival = await client.AskAsync($"connect {name}");
        Assert.StartsWith($"Welcome back, {name}.", arrival[0], StringComparison.Ordinal);
        Assert.Contains("Lantern Square (#1)", arrival);
        return client;
    }

    private static async Task WaitForEndAsync(TelnetClient client)
    {
        try
        {
            await client.ReadToEndAsync();
        }
        catch (SocketException)
        {
            // A killed process's connections may be reset.
        }
    }
}
