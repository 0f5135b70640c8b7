using MudServer.Tests.Support;

namespace MudServer.Tests.Game;

/// <summary>The game as a player sees it, over a real socket.</summary>
public abstract class PlayingTests(params string[] arguments)
{
    private static readonly string[] Numbers = [.. Enumerable.Range(0, 1000).Select(number => $"{number}")];

    [Fact]
    public async Task A_player_connects_and_looks_around()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.ConnectAsync();

        var greeting = await ana.ReadToPromptAsync();
        var arrival = await ana.AskAsync("connect Ana");
        var look = await ana.AskAsync("look");

        Assert.Contains(greeting, line => line.Contains("connect <name>", StringComparison.Ordinal));
        Assert.Contains("The Jetty (#0)", arrival);
        Assert.Equal("The Jetty (#0)", look[0]);
        Assert.Equal("Exits: north", look[^1]);
    }

    [Fact]
    public async Task A_thousand_rounds_come_in_order_and_the_prompt_last()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");

        Assert.Equal(Numbers, await ana.AskAsync("@dolist lnum(1000)=@pemit %#=%i0"));
    }

    [Fact]
    public async Task Nested_loops_come_in_order()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        var expected = from outer in Enumerable.Range(0, 10) from inner in Enumerable.Range(0, 100) select $"{outer}.{inner}";

        Assert.Equal(expected, await ana.AskAsync("@dolist lnum(10)={@dolist lnum(100)=@pemit me=%i1.%i0}"));
    }

    [Fact]
    public async Task Timing_counts_one_send()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        Assert.Equal(["Timing is on."], await ana.AskAsync("timing on"));

        var lines = await ana.AskAsync("@dolist lnum(1000)=@pemit %#=%i0");

        Assert.Equal(Numbers, lines[..^1]);
        Assert.Matches(@"^\[1000 messages in 1 send, \d+\.\d ms\]$", lines[^1]);
    }

    [Fact]
    public async Task A_comparison_sends_the_same_lines_both_ways_and_shows_them_to_no_one()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");

        var lines = await ana.AskAsync("compare");
        var again = await ana.AskAsync("compare");

        Assert.Equal(4, lines.Length);
        Assert.StartsWith("1000 lines, over ", lines[0], StringComparison.Ordinal);
        Assert.Matches(@"^  one by one     1000 sends +\d+\.\d ms$", lines[1]);
        Assert.Matches(@"^  in one scope      1 send  +\d+\.\d ms$", lines[2]);
        Assert.Matches(@"^  The scope is \d+ times as fast\.$", lines[3]);
        Assert.Matches(@"^A comparison has just ended\. Try again in \d+ s\.$", Assert.Single(again));
    }

    [Fact]
    public async Task Help_explains_one_command()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");

        Assert.Equal(["  quit", "  Leave the island.", "  Also: exit, logout"], await ana.AskAsync("help logout"));
        Assert.Equal(["There is no command \"dance\". Type \"help\" for all of them."], await ana.AskAsync("help dance"));
    }

    [Fact]
    public async Task Without_buffering_every_message_is_a_send()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        await ana.AskAsync("timing on");
        await ana.AskAsync("buffering off");

        var lines = await ana.AskAsync("@dolist lnum(1000)=@pemit %#=%i0");

        Assert.Equal(Numbers, lines[..^1]);
        Assert.StartsWith("[1000 messages in 1000 sends, ", lines[^1], StringComparison.Ordinal);
    }

    [Fact]
    public async Task What_is_said_is_heard_by_the_others_in_the_room_and_their_prompt_comes_back()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        using var bob = await mud.LoginAsync("Bob");
        await ana.ReadToPromptAsync();

        var said = await ana.AskAsync("\"Hello, [name(me)]!");
        var heard = await bob.ReadToPromptAsync();

        Assert.Equal(["You say, \"Hello, Ana!\""], said);
        Assert.Equal(["Ana says, \"Hello, Ana!\""], heard);
    }

    [Fact]
    public async Task Who_walks_away_hears_the_new_room_and_no_more_of_the_old_one()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        using var bob = await mud.LoginAsync("Bob");
        Assert.Equal(["Bob steps off the ferry."], await ana.ReadToPromptAsync());

        Assert.Equal("Lantern Square (#1)", (await bob.AskAsync("n"))[0]);
        Assert.Equal(["Bob leaves north."], await ana.ReadToPromptAsync());
        await bob.AskAsync(":dances.");
        await ana.AskAsync(":sings.");
        await bob.AskAsync("@pemit Ana=over here");

        Assert.Equal(["over here"], await ana.ReadToPromptAsync());
        Assert.Equal(["nothing"], await bob.AskAsync("think nothing"));
    }

    [Fact]
    public async Task A_player_who_quits_gets_a_goodbye_and_a_closed_connection()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        using var bob = await mud.LoginAsync("Bob");
        await ana.ReadToPromptAsync();

        await bob.SendAsync("say bye\r\nquit\r\nsay never heard\r\n");
        var last = await bob.ReadToEndAsync();

        Assert.EndsWith("The ferry takes you aboard. Come again.\r\n", last, StringComparison.Ordinal);

        // One send may carry both lines, and then one prompt follows them.
        List<string> heard = [];
        while (heard.Count < 2)
            heard.AddRange(await ana.ReadToPromptAsync());
        Assert.Equal(["Bob says, \"bye\"", "Bob leaves with the ferry."], heard);
        Assert.Contains("1 player is connected.", await ana.AskAsync("who"));
    }

    [Fact]
    public async Task A_runaway_loop_is_stopped_and_the_game_goes_on()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");

        var lines = await ana.AskAsync("@dolist lnum(1000)={@dolist lnum(1000)=think}");

        Assert.StartsWith("Your command was stopped: it took more than", lines[^1], StringComparison.Ordinal);
        Assert.Equal(["2"], await ana.AskAsync("think add(1,1)"));
    }

    [Fact]
    public async Task A_stop_says_goodbye_after_what_was_asked_before()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");
        using var bob = await mud.ConnectAsync();
        await bob.ReadToPromptAsync();
        await ana.SendAsync("@dolist lnum(5000)=think ##\r\n");
        await ana.ReadPastAsync("0\r\n");

        var stopping = mud.StopAsync();
        var (last, goodbye) = (await ana.ReadToEndAsync(), await bob.ReadToEndAsync());
        await stopping;

        Assert.Contains("4999\r\n", last, StringComparison.Ordinal);
        Assert.EndsWith("Goodbye!\r\n", last, StringComparison.Ordinal);
        Assert.EndsWith("Goodbye!\r\n", goodbye, StringComparison.Ordinal);
    }

    [Fact]
    public async Task The_counters_are_there_over_http()
    {
        await using var mud = await StartAsync();
        using var ana = await mud.LoginAsync("Ana");

        var stats = await mud.GetAsync("/stats");
        var health = await mud.GetAsync("/health");

        Assert.Equal(1, stats.GetProperty("players").GetInt32());
        Assert.Equal(1, stats.GetProperty("clients").GetProperty("connections").GetInt32());
        Assert.True(stats.GetProperty("output").GetProperty("acknowledgedMessages").GetInt64() > 10);
        Assert.Equal("Healthy", health.GetProperty("status").GetString());
    }

    private Task<RunningMud> StartAsync() => RunningMud.StartAsync(arguments);
}
