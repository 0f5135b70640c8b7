using BatchKit.IntegrationTests.RabbitMQ;
using BatchKit.TestServers.Mud;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The MUD in one process whose output goes out through the broker and comes back in.</summary>
[Trait("Lane", "slow: programs are started")]
public sealed class OneProcessTests(RabbitMqFixture fixture)
{
    [Theory]
    [InlineData("rabbitmq")]
    [InlineData("masstransit")]
    public async Task Output_goes_through_the_broker_and_a_stop_waits_for_it(string transport)
    {
        var server = await fixture.GetAsync();
        var prefix = RabbitMqSome.Options(server).Prefix;
        using var mud = await MudProcess.StartAsync("--port", "0", "--transport", transport, "--prefix", prefix, "--rabbitmq", server.Address.ToString());
        using var ana = await mud.ConnectAsync();
        await ana.LoginAsync("Ana");
        using var bob = await mud.ConnectAsync();
        await bob.LoginAsync("Bob");
        Assert.Equal(["Bob steps off the ferry."], await ana.ReadToPromptAsync());

        await ana.SendAsync("@dolist lnum(2000)=think ##\r\n");
        await ana.ReadPastAsync("0\r\n");
        mud.Terminate();
        var rest = await ana.ReadToEndAsync();

        Assert.Contains("1999\r\n", rest, StringComparison.Ordinal);
        Assert.EndsWith("Goodbye!\r\n", rest, StringComparison.Ordinal);
        Assert.Equal(0, await mud.WaitForExitAsync());
    }

    [Fact]
    public async Task MassTransit_needs_no_broker_in_one_process()
    {
        using var mud = await MudProcess.StartAsync("--port", "0", "--transport", "masstransit");
        using var ana = await mud.ConnectAsync();
        await ana.LoginAsync("Ana");

        Assert.Equal(Enumerable.Range(0, 1000).Select(number => $"{number}"), await ana.AskAsync("@dolist lnum(1000)=@pemit %#=%i0"));
    }
}
