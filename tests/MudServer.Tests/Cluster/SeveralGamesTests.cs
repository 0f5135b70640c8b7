using BatchKit.TestServers.Mud;
using MudServer.Tests.Support;

namespace MudServer.Tests.Cluster;

/// <summary>Two games that share the players, and two gateways, as processes with the real RabbitMQ between them.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class SeveralGamesTests(BrokerFixture fixture)
{
    private static readonly string First = MudCluster.NameOf(1, "Ana", "Bob", "Cai", "Dee");
    private static readonly string Second = MudCluster.NameOf(2, "Ana", "Bob", "Cai", "Dee");

    [Fact]
    public async Task Players_of_two_games_see_and_hear_each_other()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        await StartGamesAsync(cluster);
        using var one = await LoginAsync(await cluster.StartGatewayAsync("--shards", "2"), First);
        using var other = await LoginAsync(await cluster.StartGatewayAsync("--shards", "2"), Second);
        await SeeTwoPlayersAsync(one);
        await SeeTwoPlayersAsync(other);

        await one.SendAsync($"say Hello\r\n@pemit {Second}=only for you\r\n");
        await other.ReadPastAsync($"{First} says, \"Hello\"\r\n");
        await other.ReadPastAsync("only for you\r\n");
        await other.SendAsync("north\r\n");
        await one.ReadPastAsync($"{Second} leaves north.\r\n");
    }

    [Fact]
    public async Task The_game_of_a_name_knows_its_password_at_each_gateway()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        await StartGamesAsync(cluster);
        var gateways = await Task.WhenAll(cluster.StartGatewayAsync("--shards", "2"), cluster.StartGatewayAsync("--shards", "2"));
        using var one = await gateways[0].ConnectAsync();
        await one.SendAsync($"login {Second}\r\nlantern-1\r\n");
        await one.ReadPastAsync($"Welcome, {Second}.");
        using var other = await gateways[1].ConnectAsync();

        await other.SendAsync($"connect {Second}\r\nlogin {Second}\r\nlantern-2\r\nlogin {Second}\r\nlantern-1\r\n");

        await other.ReadPastAsync($"{Second} has a password.");
        await other.ReadPastAsync("That is not the password.");
        await other.ReadPastAsync($"Welcome back, {Second}.");
    }

    [Fact]
    public async Task Output_of_two_games_for_one_client_keeps_the_order_of_each()
    {
        const int lines = 500;
        using var cluster = new MudCluster(await fixture.GetAsync());
        await StartGamesAsync(cluster);
        var gateways = await Task.WhenAll(cluster.StartGatewayAsync("--shards", "2"), cluster.StartGatewayAsync("--shards", "2"));
        using var reader = await LoginAsync(gateways[0], "Reader");
        using var one = await LoginAsync(gateways[0], First);
        using var other = await LoginAsync(gateways[1], Second);
        await SeePlayersAsync(one, 3);
        await SeePlayersAsync(other, 3);

        await Task.WhenAll(one.SendAsync($"@dolist lnum({lines})=@pemit Reader=one ##\r\n"), other.SendAsync($"@dolist lnum({lines})=@pemit Reader=other ##\r\n"));
        var heard = new List<string>();
        while (heard.Count < 2 * lines)
            heard.AddRange((await reader.ReadToPromptAsync()).Where(line => line.StartsWith("one ", StringComparison.Ordinal) || line.StartsWith("other ", StringComparison.Ordinal)));

        foreach (var sender in new[] { "one", "other" })
            Assert.Equal(Enumerable.Range(0, lines).Select(line => $"{sender} {line}"), heard.Where(line => line.StartsWith($"{sender} ", StringComparison.Ordinal)));
    }

    [Fact]
    public async Task Players_of_a_killed_game_go_on_at_the_other_and_return_when_it_starts_again()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        var games = await StartGamesAsync(cluster);
        var gateways = await Task.WhenAll(cluster.StartGatewayAsync("--shards", "2"), cluster.StartGatewayAsync("--shards", "2"));
        using var one = await LoginAsync(gateways[0], First);
        using var other = await LoginAsync(gateways[1], Second);
        await one.SendAsync("north\r\n");
        var number = await EvaluateAsync(one, "%#");
        await Until.TrueAsync(async () => (await other.AskAsync("who")).Any(line => line.StartsWith(First, StringComparison.Ordinal) && line.EndsWith("Lantern Square", StringComparison.Ordinal)));

        games[0].Kill();
        Assert.Equal($"{number} in Lantern Square", await EvaluateAsync(one, "%# in [name(loc(me))]"));
        Assert.Equal("1, 2", await cluster.GetShardsAsync(games[1]));

        var again = cluster.StartGameAsync("--shard", "1/2");
        while (!again.IsCompleted || await cluster.GetShardsAsync(await again) != "1")
            Assert.Equal(number, await EvaluateAsync(one, "%#"));
        Assert.Equal($"{number} in Lantern Square", await EvaluateAsync(one, "%# in [name(loc(me))]"));
        Assert.Equal("2", await cluster.GetShardsAsync(games[1]));
        await SeeTwoPlayersAsync(one);
        await SeeTwoPlayersAsync(other);
    }

    [Fact]
    public async Task Players_of_a_game_that_stops_go_on_at_the_other()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        var games = await StartGamesAsync(cluster);
        using var one = await LoginAsync(await cluster.StartGatewayAsync("--shards", "2"), First);
        await one.SendAsync("north\r\n");
        var number = await EvaluateAsync(one, "%#");

        games[0].Terminate();
        await one.ReadPastAsync("Your next line may find it again.\r\n");

        Assert.Equal($"{number} in Lantern Square", await EvaluateAsync(one, "%# in [name(loc(me))]"));
        Assert.Equal(0, await games[0].WaitForExitAsync());
    }

    [Fact]
    public async Task A_player_between_two_gateways_gets_what_the_player_of_another_game_wrote()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        await StartGamesAsync(cluster);
        var gateways = await Task.WhenAll(cluster.StartGatewayAsync("--shards", "2"), cluster.StartGatewayAsync("--shards", "2"));
        using var one = await LoginAsync(gateways[0], First);
        using var other = await LoginAsync(gateways[1], Second);
        await SeeTwoPlayersAsync(other);

        gateways[0].Terminate();
        await one.ReadPastAsync("  resume 1-");
        var token = await one.ReadPastAsync("\r\n");
        await Until.TrueAsync(async () => (await other.AskAsync("who")).Any(line => line.EndsWith("The Jetty (away)", StringComparison.Ordinal)));
        await other.SendAsync($"say Still here?\r\n@pemit {First}=only you\r\n");
        using var again = await gateways[1].ConnectAsync();
        await again.SendAsync($"resume 1-{token}\r\n");

        await again.ReadPastAsync($"Welcome back, {First}.");
        await again.ReadPastAsync($"{Second} says, \"Still here?\"\r\n");
        await again.ReadPastAsync("only you\r\n");
    }

    [Fact]
    public async Task A_gateway_that_does_not_know_of_both_games_says_so()
    {
        using var cluster = new MudCluster(await fixture.GetAsync());
        await StartGamesAsync(cluster);
        using var client = await (await cluster.StartGatewayAsync()).ConnectAsync();
        await client.ReadToPromptAsync();

        Assert.Equal([$"This gateway does not know which game plays {Second}: start it with --shards 2."], await client.AskAsync($"connect {Second}"));
    }

    /// <summary>Starts two games, and waits until each plays its own shard: one that starts late finds its shard with the other, and gets it back.</summary>
    private static async Task<MudProcess[]> StartGamesAsync(MudCluster cluster)
    {
        var games = await Task.WhenAll(cluster.StartGameAsync("--shard", "1/2"), cluster.StartGameAsync("--shard", "2/2"));
        await Until.TrueAsync(async () => (await cluster.GetShardsAsync(games[0]), await cluster.GetShardsAsync(games[1])) == ("1", "2"));
        return games;
    }

    private static async Task<TelnetClient> LoginAsync(MudProcess gateway, string name)
    {
        var client = await gateway.ConnectAsync();
        await client.LoginAsync(name);
        return client;
    }

    private static Task SeeTwoPlayersAsync(TelnetClient client) => SeePlayersAsync(client, 2);

    // A game learns of the others' players a moment after they have come.
    private static Task SeePlayersAsync(TelnetClient client, int count) =>
        Until.TrueAsync(async () => (await client.AskAsync("who")).Contains($"{count} players are connected."));

    /// <summary>Has the game work out a text, whatever others do meanwhile.</summary>
    private static async Task<string> EvaluateAsync(TelnetClient client, string text)
    {
        var mark = Guid.NewGuid().ToString("n");
        await client.SendAsync($"think {mark} {text}\r\n");
        await client.ReadPastAsync(mark + " ");
        return await client.ReadPastAsync("\r\n");
    }
}
