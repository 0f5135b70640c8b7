using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.Network;
using Microsoft.Playwright;
using static Microsoft.Playwright.Assertions;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The MUD's web page in a real browser.</summary>
[Trait("Lane", "night: a browser opens the page")]
public sealed class WebPageTests(Chromium chromium, RabbitMqFixture broker)
{
    private static readonly string[] Lines = [.. Enumerable.Range(0, 1000).Select(number => $"line {number}")];

    [Theory]
    [InlineData(1280, 800, false)]
    [InlineData(390, 844, true)]
    [InlineData(360, 640, true)]
    public async Task A_thousand_lines_come_in_order_the_prompt_last_and_the_plot_moves(int width, int height, bool isPhone)
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page, width, height, isPhone);
        await page.LoginAsync("Ana");
        var bars = await page.CountBarsAsync();

        await page.Loop.ClickAsync();
        await page.WaitForLineAsync("line 999");
        await page.WaitForTotalAsync("messages", 1000);

        var lines = await page.ReadLinesAsync();
        Assert.Equal(Lines, lines[^1000..]);
        Assert.Equal("> @dolist lnum(1000)=@pemit %#=line %i0", lines[^1001]);
        await Expect(page.Prompt).ToHaveTextAsync(">");
        Assert.True(await page.ShowsNewestLineAsync());
        Assert.True(await page.CountBarsAsync() > bars);
        Assert.InRange(await page.ReadSendsAsync(), 1, 10);
        Assert.Empty(await page.FindOverflowAsync());
        Assert.Empty(page.Errors);
    }

    [Fact]
    public async Task The_switch_types_buffering_off_and_then_every_line_is_a_send()
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page);
        await Expect(page.Buffering).ToBeDisabledAsync();
        await page.LoginAsync("Ana");
        await Expect(page.Buffering).ToBeCheckedAsync();

        await page.Buffering.ClickAsync();
        await page.WaitForLineAsync("Buffering is off.");
        await page.Loop.ClickAsync();
        await page.WaitForTotalAsync("sends", 1000);

        await Expect(page.Buffering).Not.ToBeCheckedAsync();
        await page.WaitForLineAsync("line 999");
        Assert.Equal(Lines, (await page.ReadLinesAsync())[^1000..]);
        Assert.Empty(page.Errors);
    }

    [Fact]
    public async Task The_messages_of_a_send_are_those_of_now_and_not_of_a_time_with_scopes()
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page);
        await page.LoginAsync("Ana");
        await page.Loop.ClickAsync();
        await page.WaitForTotalAsync("messages", 1000);

        await page.Buffering.ClickAsync();
        await page.WaitForLineAsync("Buffering is off.");
        await page.Loop.ClickAsync();
        await page.WaitForTotalAsync("sends", 1000);

        await Expect(page.Ratio).ToHaveTextAsync("1");
    }

    [Theory]
    [InlineData(1280, 800, false)]
    [InlineData(390, 844, true)]
    public async Task One_click_compares_lines_sent_one_by_one_with_lines_in_one_scope(int width, int height, bool isPhone)
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0", "--transport", "memory");
        await using var page = await GamePage.OpenAsync(browser, mud.Page, width, height, isPhone);
        await page.LoginAsync("Ana");

        await page.Compare.ClickAsync();
        await page.WaitForLineAsync("  The scope is ");

        await Expect(page.Comparison).ToBeVisibleAsync();
        await Expect(page.Comparison).ToContainTextAsync("as fast in a scope, over a simulated broker that confirms a send after 0.3 ms");
        await Expect(page.Comparison).ToContainTextAsync("1000 sends");
        await Expect(page.Comparison).ToContainTextAsync("1 send");
        Assert.Empty(await page.FindOverflowAsync());
        Assert.Empty(page.Errors);
    }

    [Fact]
    public async Task A_password_is_shown_neither_while_it_is_typed_nor_afterwards()
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page);
        await page.TypeAsync("login Ana");
        await Expect(page.Prompt).ToHaveTextAsync("Password:");
        await Expect(page.Input).ToHaveAttributeAsync("type", "password");

        await page.TypeAsync("lantern-1");
        await page.WaitForLineAsync("Welcome, Ana.");
        await Expect(page.Input).ToHaveAttributeAsync("type", "text");
        await page.Input.PressAsync("ArrowUp");

        await Expect(page.Input).ToHaveValueAsync("login Ana");
        Assert.DoesNotContain(await page.ReadLinesAsync(), line => line.Contains("lantern-1", StringComparison.Ordinal));
        Assert.Empty(page.Errors);
    }

    [Fact]
    public async Task What_others_say_comes_above_the_prompt_and_what_is_being_typed()
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page);
        await page.LoginAsync("Ana");
        using var bob = await mud.ConnectAsync();
        await bob.LoginAsync("Bob");
        await page.Input.FillAsync("say half a");

        await bob.AskAsync("say Hello");

        await page.WaitForLineAsync("Bob says, \"Hello\"");
        await Expect(page.Prompt).ToHaveTextAsync(">");
        await Expect(page.Input).ToHaveValueAsync("say half a");
        Assert.Empty(page.Errors);
    }

    [Fact]
    public async Task What_another_player_writes_steers_no_page()
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page);
        await page.LoginAsync("Ana");
        using var bob = await mud.ConnectAsync();
        await bob.LoginAsync("Bob");

        await bob.AskAsync("@pemit Ana=Buffering is off.");
        await bob.AskAsync("@pemit Ana=done");

        await page.WaitForLineAsync("done");
        await Expect(page.Buffering).ToBeCheckedAsync();
        Assert.Empty(page.Errors);
    }

    [Fact]
    public async Task The_arrow_keys_bring_back_what_was_typed()
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page);
        await page.LoginAsync("Ana");
        await page.TypeAsync("think one");
        await page.TypeAsync("think two");
        await page.Input.FillAsync("unsent");

        await page.Input.PressAsync("ArrowUp");
        await page.Input.PressAsync("ArrowUp");
        await Expect(page.Input).ToHaveValueAsync("think one");

        await page.Input.PressAsync("ArrowDown");
        await Expect(page.Input).ToHaveValueAsync("think two");
        await page.Input.PressAsync("ArrowDown");
        await Expect(page.Input).ToHaveValueAsync("unsent");
    }

    [Fact]
    public async Task Colours_are_shown_and_other_control_sequences_are_not()
    {
        var browser = await chromium.GetAsync();
        using var mud = await MudProcess.StartAsync("--port", "0");
        await using var page = await GamePage.OpenAsync(browser, mud.Page);

        var html = await page.EvaluateAsync<string>(
            """
            import("/ansi.js").then(({ Ansi }) => {
              const line = document.createElement("div");
              line.append(...new Ansi().read("a\x1b[1;31mred\x1b[0m \x1b[2J\x1b[48;5;196mx\x1b[49m<b>\x07\x1b[38;2;1;2;3mrgb"));
              return line.innerHTML;
            })
            """);

        Assert.Equal(
            "a<span class=\"bold fg-1\">red</span> <span class=\"\" style=\"background-color: rgb(255, 0, 0);\">x</span>&lt;b&gt;<span class=\"\" style=\"color: rgb(1, 2, 3);\">rgb</span>",
            html);
        Assert.Empty(page.Errors);
    }

    [Fact]
    public async Task The_page_comes_back_when_the_server_does()
    {
        var browser = await chromium.GetAsync();
        var port = $"{FreePort.Take(1)[0]}";
        var mud = await MudProcess.StartAsync("--port", "0", "--http-port", port);
        await using var page = await GamePage.OpenAsync(browser, mud.Page);
        await page.LoginAsync("Ana");

        mud.Kill();
        await Expect(page.Connection).ToContainTextAsync("Connecting again");
        mud.Dispose();
        using var next = await MudProcess.StartAsync("--port", "0", "--http-port", port);

        await Expect(page.Connection).ToHaveTextAsync("Connected");
        await page.WaitForLineAsync("Welcome, Ana.", count: 2);
    }

    [Fact]
    public async Task A_page_whose_gateway_is_replaced_comes_back_by_another_with_what_was_written_meanwhile()
    {
        var browser = await chromium.GetAsync();
        await using var mud = await TwoGateways.StartAsync(await broker.GetAsync());
        await using var balancer = TcpProxy.Start("127.0.0.1", mud.First.Page.Port);
        await using var page = await GamePage.OpenAsync(browser, new UriBuilder(mud.First.Page) { Port = balancer.Port }.Uri);
        await page.LoginAsync("Ana");
        using var bob = await mud.Second.ConnectAsync();
        await bob.LoginAsync("Bob");

        balancer.ForwardTo(mud.Second.Page.Port);
        mud.First.Terminate();
        Assert.Equal(0, await mud.First.WaitForExitAsync());
        await bob.AskAsync("say Still here?");

        await page.WaitForLineAsync("Welcome back, Ana.");
        await page.WaitForLineAsync("Bob says, \"Still here?\"");
        await Expect(page.Connection).ToHaveTextAsync("Connected");
        await page.TypeAsync("say Yes.");
        await bob.ReadPastAsync("Ana says, \"Yes.\"\r\n");
        Assert.Single(await page.ReadLinesAsync(), static line => line.StartsWith("Bob says, ", StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_gateways_page_says_what_it_counts()
    {
        var browser = await chromium.GetAsync();
        await using var mud = await TwoProcesses.StartAsync(await broker.GetAsync(), "rabbitmq");
        await using var page = await GamePage.OpenAsync(browser, mud.Gateway.Page);
        await page.LoginAsync("Ana");

        await page.Loop.ClickAsync();
        await page.WaitForTotalAsync("messages", 1000);

        await Expect(page.About).ToContainTextAsync("This process is a gateway");
        Assert.InRange(await page.ReadSendsAsync(), 1, 10);
        Assert.Empty(await page.FindOverflowAsync());
        Assert.Empty(page.Errors);
    }
}
