using System.Net;
using System.Net.Sockets;
using BatchKit.TestServers.Mud;
using MudServer.Hosting;
using MudServer.Tests.Support;

namespace MudServer.Tests.Clients;

/// <summary>Clients that are not well behaved.</summary>
public sealed class ClientTests
{
    [Fact]
    public async Task A_line_in_pieces_is_one_line()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        ana.Socket.NoDelay = true;

        foreach (var letter in "think add(20,22)\r\n")
            await ana.SendAsync($"{letter}");

        Assert.Equal(["42"], await ana.ReadToPromptAsync());
    }

    [Fact]
    public async Task Who_ends_its_side_still_gets_the_answers()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.ConnectAsync();
        await ana.SendAsync("connect Ana\n@dolist lnum(2000)=think ##\n");

        ana.Socket.Shutdown(SocketShutdown.Send);
        var all = await ana.ReadToEndAsync();

        Assert.Contains("1999\r\n", all, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Negotiation_and_garbage_do_not_hurt()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        await ana.SendAsync("\u00ff\u00fd\u0018\u00ff\u00fa\u0018\u0000xterm\u00ff\u00f0thi\u00ff\u00f1nk fine\r\n");

        Assert.Equal(["fine"], await ana.ReadToPromptAsync());

        await ana.SendAsync("\u0000\u0001\u00c3\u0028\u00fe\r\n");
        Assert.StartsWith("Huh?", (await ana.ReadToPromptAsync())[0], StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_line_without_end_is_refused_and_the_next_one_is_not()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.LoginAsync("Ana");

        Assert.Equal(["That line was too long, and no one heard it."], await ana.AskAsync(new string('x', 1_000_000)));
        Assert.Equal(["still here"], await ana.AskAsync("think still here"));
    }

    [Fact]
    public async Task A_client_that_breaks_off_leaves_the_others_alone()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        using (var bob = await mud.LoginAsync("Bob"))
        {
            await ana.ReadToPromptAsync();
            await bob.SendAsync("@dolist lnum(5000)=think ##\r\n");
            bob.Socket.LingerState = new LingerOption(enable: true, seconds: 0);
        }

        Assert.Equal(["Bob fades into the mist."], await ana.ReadToPromptAsync());
        Assert.Contains("1 player is connected.", await ana.AskAsync("who"));
    }

    [Fact]
    public async Task A_client_that_does_not_read_is_disconnected_and_the_others_play_on()
    {
        await using var mud = await RunningMud.StartAsync();
        using var slow = await mud.LoginAsync("Slow");
        using var ana = await mud.LoginAsync("Ana");

        for (var round = 0; round < 40; round++)
        {
            await ana.AskAsync($"@dolist lnum(200)=@pemit Slow=[repeat(0123456789,400)]");
            if ((await ana.AskAsync("who")).Contains("1 player is connected."))
                break;
        }

        var stats = await mud.GetAsync("/stats");
        Assert.True(stats.GetProperty("clients").GetProperty("droppedSlowConsumerMessages").GetInt64() > 0);
        Assert.Contains("1 player is connected.", await ana.AskAsync("who"));
    }

    [Fact]
    public async Task More_clients_than_allowed_are_turned_away()
    {
        await using var mud = await RunningMud.StartAsync("--max-connections", "2");
        using var ana = await mud.LoginAsync("Ana");
        using var bob = await mud.LoginAsync("Bob");
        using var late = await mud.ConnectAsync();

        Assert.StartsWith("The island is full.", await late.ReadToEndAsync(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task An_address_has_a_small_share_of_the_places_and_the_others_find_theirs()
    {
        const int Share = 20;
        await using var mud = await RunningMud.StartAsync();
        var silent = await Task.WhenAll(Enumerable.Range(0, Share).Select(_ => mud.ConnectAsync())).WithinDeadline();

        // Clients may start in another order than they connect, so the late one connects when the others have their places.
        await Task.WhenAll(silent.Select(client => client.ReadPastAsync("step ashore"))).WithinDeadline();
        using var late = await mud.ConnectAsync();

        Assert.StartsWith("The island is full.", await late.ReadToEndAsync(), StringComparison.Ordinal);
        foreach (var client in silent)
            client.Dispose();
    }

    [Fact]
    public async Task Idle_connections_of_one_address_to_the_web_page_have_a_limit_and_no_one_else_notices()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        var idle = Enumerable.Range(0, MudApplication.MaxHttpConnectionsPerAddress + 1).Select(_ => new TcpClient()).ToArray();
        foreach (var client in idle)
            await client.ConnectAsync(IPAddress.Loopback, mud.Page.Port).WithinDeadline();

        // Which of them Kestrel accepts last is the system's choice.
        var refused = await Task.WhenAny(idle.Select(client => client.Client.ReceiveAsync(new byte[1]))).WithinDeadline();

        Assert.Equal(0, await refused);
        using var other = new TcpClient(new IPEndPoint(IPAddress.Parse("127.0.0.2"), port: 0));
        await other.ConnectAsync(IPAddress.Loopback, mud.Page.Port).WithinDeadline();
        await other.Client.SendAsync("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"u8.ToArray()).WithinDeadline();
        Assert.InRange(await other.Client.ReceiveAsync(new byte[1]).WithinDeadline(), 1, 1);
        Assert.Equal(["still here"], await ana.AskAsync("think still here"));
        foreach (var client in idle)
            client.Dispose();
    }

    [Fact]
    public async Task Many_clients_play_at_once()
    {
        const int Players = 100;
        await using var mud = await RunningMud.StartAsync("--max-connections-per-address", $"{Players}");
        var clients = await Task.WhenAll(Enumerable.Range(0, Players).Select(number => mud.LoginAsync($"Player{number}"))).WithinDeadline();

        var answers = await Task.WhenAll(clients.Select(client => LastLineAsync(client)));

        Assert.All(answers, answer => Assert.Equal("99", answer));
        foreach (var client in clients)
            client.Dispose();
    }

    private static async Task<string> LastLineAsync(TelnetClient client)
    {
        await client.SendAsync("@dolist lnum(100)=think ##\r\nthink done\r\n");
        var text = await client.ReadPastAsync("done\r\n");
        return text.Split("\r\n", StringSplitOptions.RemoveEmptyEntries).Last(line => line.All(char.IsAsciiDigit));
    }
}
