using BatchKit.TestServers.Mud;
using MudServer.Tests.Support;

namespace MudServer.Tests.Clients;

/// <summary>Names with passwords, and what MUD clients are told besides text.</summary>
public sealed class LoginTests
{
    // Read as Latin-1.
    private const string Telnet = "\u00ff\u00f1";
    private const string HiddenQuestion = "\u00ff\u00fb\u0001Password: \u00ff\u00f9";
    private const string ShowsInput = "\u00ff\u00fc\u0001";

    [Theory]
    [InlineData("on")]
    [InlineData("off")]
    public async Task A_name_gets_a_password_that_no_screen_shows_and_is_entered_with_no_other(string buffering)
    {
        await using var mud = await RunningMud.StartAsync("--buffering", buffering);
        using var ana = await AskedAsync(mud, "Ana");
        await ana.SendAsync("lantern-1\r\n");
        Assert.Equal(ShowsInput + "\r\n\u001b[0m", await ana.ReadPastAsync("Welcome, Ana."));
        using var second = await AskedAsync(mud, "ana");

        await second.SendAsync("lantern-2\r\n");
        Assert.Contains("That is not the password.", await second.ReadToPromptAsync());
        Assert.Equal(["Ana has a password. Type \"login Ana\"."], await second.AskAsync("connect Ana"));
        await second.SendAsync("login Ana\r\n");
        await second.ReadPastAsync(HiddenQuestion);
        await second.SendAsync("lantern-1\r\nthink still here\r\n");

        await second.ReadPastAsync("Welcome back, Ana.");
        Assert.Contains("by another way", await ana.ReadToEndAsync(), StringComparison.Ordinal);
        await second.ReadToPromptAsync();
        Assert.Equal(["still here"], await second.ReadToPromptAsync());
    }

    [Fact]
    public async Task Who_does_not_know_the_password_is_disconnected_after_three_guesses()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await AskedAsync(mud, "Ana");
        await ana.SendAsync("lantern-1\r\n");
        await ana.ReadPastAsync("Welcome, Ana.");
        using var stranger = await AskedAsync(mud, "Ana");

        await stranger.SendAsync("guess-one\r\nlogin Ana\r\nguess-two\r\nlogin Ana\r\nguess-three\r\nlogin Ana\r\nlantern-1\r\n");

        var all = await stranger.ReadToEndAsync();
        Assert.Equal(3, all.Split("That is not the password.").Length - 1);
        Assert.DoesNotContain("Welcome", all, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_guests_name_can_not_be_taken_by_a_password()
    {
        await using var mud = await RunningMud.StartAsync();
        using var stranger = await AskedAsync(mud, "Ana");
        using var ana = await mud.LoginAsync("Ana");

        await stranger.SendAsync("lantern-1\r\n");

        Assert.Contains("Ana is on the island already. Choose another name.", await stranger.ReadToPromptAsync());
        Assert.Equal(["Ana is on the island already. Choose another name."], await stranger.AskAsync("login Ana"));
        Assert.Equal(["still here"], await ana.AskAsync("think still here"));
    }

    [Theory]
    [InlineData("short")]
    [InlineData("with a space")]
    [InlineData("")]
    public async Task A_password_is_one_word_that_is_not_short(string password)
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await AskedAsync(mud, "Ana");

        await ana.SendAsync($"{password}\r\n");

        Assert.Contains("A password has 8 to 64 characters, without a space.", await ana.ReadToPromptAsync());
        Assert.Contains("Welcome, Ana. You are #14. Type \"help\" to see what you can do.", await ana.AskAsync("connect Ana"));
    }

    [Fact]
    public async Task A_client_without_telnet_is_asked_for_a_password_without_a_byte_of_telnet()
    {
        await using var mud = await RunningMud.StartAsync("--go-ahead", "off");
        using var ana = await mud.ConnectAsync();
        await ana.SendAsync("login Ana\nlantern-1\nquit\n");

        var all = await ana.ReadToEndAsync();

        Assert.Contains("Password: ", all, StringComparison.Ordinal);
        Assert.Contains("Welcome, Ana.", all, StringComparison.Ordinal);
        Assert.DoesNotContain('\u00ff', all);
    }

    [Fact]
    public async Task MUD_lists_learn_who_is_there_and_since_when()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        using var list = await mud.ConnectAsync();

        await list.SendAsync("\u00ff\u00fd\u0046");

        await list.ReadPastAsync("\u00ff\u00fa\u0046");
        var status = (await list.ReadPastAsync("\u00ff\u00f0")).Split('\u0001', '\u0002');
        Assert.Equal(["", "NAME", "Lantern Isle", "PLAYERS", "1", "UPTIME"], status[..6]);
        Assert.InRange(DateTimeOffset.UtcNow.ToUnixTimeSeconds() - long.Parse(status[6], System.Globalization.CultureInfo.InvariantCulture), 0, 3600);
    }

    [Fact]
    public async Task MUD_clients_learn_where_the_player_is()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.ConnectAsync();
        await ana.SendAsync("\u00ff\u00fd\u00c9connect Ana\r\nnorth\r\n");

        await ana.ReadPastAsync("\u00ff\u00fa\u00c9Room.Info ");
        Assert.Equal("{\"num\":0,\"name\":\"The Jetty\",\"exits\":{\"north\":1}}", await ana.ReadPastAsync("\u00ff\u00f0"));
        await ana.ReadPastAsync("\u00ff\u00fa\u00c9Room.Info ");
        Assert.StartsWith("{\"num\":1,", await ana.ReadPastAsync("\u00ff\u00f0"), StringComparison.Ordinal);
    }

    /// <summary>Connects a telnet program, and asks for a name.</summary>
    private static async Task<TelnetClient> AskedAsync(RunningMud mud, string name)
    {
        var client = await mud.ConnectAsync();
        await client.ReadToPromptAsync();
        await client.SendAsync($"{Telnet}login {name}\r\n");
        await client.ReadPastAsync(HiddenQuestion);
        return client;
    }
}
