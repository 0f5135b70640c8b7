using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.TestServers.Mud;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The MUD as two processes, game and gateway, over the real RabbitMQ.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class TwoProcessesTests(RabbitMqFixture fixture)
{
    private static readonly string[] Numbers = [.. Enumerable.Range(0, 1000).Select(number => $"{number}")];

    [Theory]
    [InlineData("rabbitmq")]
    [InlineData("masstransit")]
    public async Task A_thousand_rounds_and_their_prompt_are_one_message_on_the_wire(string transport)
    {
        await using var mud = await TwoProcesses.StartAsync(await fixture.GetAsync(), transport);
        using var ana = await mud.LoginAsync("Ana");
        var output = await mud.ListenAsync(TwoProcesses.GatewayNode);
        var input = await mud.ListenAsync(TwoProcesses.GameNode);

        Assert.Equal(Numbers, await ana.AskAsync("@dolist lnum(1000)=@pemit %#=%i0"));

        await mud.Probe.WaitForCountAsync(output, 1);
        await mud.Probe.WaitForCountAsync(input, 1);

        Assert.Equal(
            from outer in Enumerable.Range(0, 10) from inner in Enumerable.Range(0, 100) select $"{outer}.{inner}",
            await ana.AskAsync("@dolist lnum(10)={@dolist lnum(100)=@pemit %#=%i1.%i0}"));

        await mud.Probe.WaitForCountAsync(output, 2);
        await mud.Probe.WaitForCountAsync(input, 2);
        Assert.Equal(0u, await mud.CountWaitingAsync(TwoProcesses.GatewayNode));
        Assert.Equal(0u, await mud.CountWaitingAsync(TwoProcesses.GameNode));
    }

    [Fact]
    public async Task Without_buffering_every_line_is_a_message_on_the_wire()
    {
        await using var mud = await TwoProcesses.StartAsync(await fixture.GetAsync(), "rabbitmq");
        using var ana = await mud.LoginAsync("Ana");
        await ana.AskAsync("buffering off");
        var output = await mud.ListenAsync(TwoProcesses.GatewayNode);

        Assert.Equal(Numbers[..100], await ana.AskAsync("@dolist lnum(100)=@pemit %#=%i0"));

        await mud.Probe.WaitForCountAsync(output, 101);
    }

    [Fact]
    public async Task Timing_says_what_the_broker_confirmed()
    {
        await using var mud = await TwoProcesses.StartAsync(await fixture.GetAsync(), "rabbitmq");
        using var ana = await mud.LoginAsync("Ana");
        await ana.AskAsync("timing on");

        var lines = await ana.AskAsync("@dolist lnum(1000)=@pemit %#=%i0");

        Assert.Equal(Numbers, lines[..^1]);
        Assert.StartsWith("[1000 messages in 1 send, ", lines[^1], StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("rabbitmq")]
    [InlineData("masstransit")]
    public async Task A_rooms_line_reaches_the_others_in_the_room(string transport)
    {
        await using var mud = await TwoProcesses.StartAsync(await fixture.GetAsync(), transport);
        using var ana = await mud.LoginAsync("Ana");
        using var bob = await mud.LoginAsync("Bob");
        Assert.Equal(["Bob steps off the ferry."], await ana.ReadToPromptAsync());

        Assert.Equal(["You say, \"Hello\""], await bob.AskAsync("say Hello"));
        Assert.Equal(["Bob says, \"Hello\""], await ana.ReadToPromptAsync());
        await bob.AskAsync("north");
        Assert.Equal(["Bob leaves north."], await ana.ReadToPromptAsync());
        await bob.AskAsync("say Anyone?");
        await bob.AskAsync("@pemit Ana=Only this");
        Assert.Equal(["Only this"], await ana.ReadToPromptAsync());
    }

    [Fact]
    public async Task The_gateway_keeps_its_clients_while_the_game_starts_again()
    {
        await using var mud = await TwoProcesses.StartAsync(await fixture.GetAsync(), "rabbitmq");
        using var ana = await mud.LoginAsync("Ana");

        await mud.RestartGameAsync();
        Assert.StartsWith("Fog hides the island", (await ana.ReadToPromptAsync())[0], StringComparison.Ordinal);
        var greeting = await ana.AskAsync("look");

        Assert.Contains(greeting, line => line.Contains("connect <name>", StringComparison.Ordinal));
        Assert.Contains("The Jetty (#0)", await ana.AskAsync("connect Ana"));
    }

    [Fact]
    public async Task A_gateway_that_ends_says_goodbye_and_sends_its_players_to_another()
    {
        await using var mud = await TwoProcesses.StartAsync(await fixture.GetAsync(), "rabbitmq");
        using var ana = await mud.LoginAsync("Ana");

        mud.Gateway.Terminate();
        var last = await ana.ReadToEndAsync();

        Assert.Matches(@"Connect again within 60 s, at the next one, and type:\r\n\x1b\[0m  resume 1-\S+\r\nGoodbye!\r\n$", last);
        Assert.Equal(0, await mud.Gateway.WaitForExitAsync());
        mud.Game.Terminate();
        Assert.Equal(0, await mud.Game.WaitForExitAsync());
    }

    [Fact]
    public async Task A_gateway_without_a_game_tells_its_clients()
    {
        var server = await fixture.GetAsync();
        var prefix = RabbitMqSome.Options(server).Prefix;
        using var gateway = await MudProcess.StartAsync(
            "--role", "gateway", "--port", "0", "--prefix", prefix, "--rabbitmq", server.Address.ToString());
        using var ana = await gateway.ConnectAsync();

        Assert.Contains("The island is not there just now.", await ana.ReadToEndAsync(), StringComparison.Ordinal);
    }
}
