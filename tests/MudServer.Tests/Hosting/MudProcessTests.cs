using System.Net;
using System.Net.Sockets;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.Network;

namespace MudServer.Tests.Hosting;

/// <summary>The program as its user starts and ends it.</summary>
[Trait("Lane", "slow: programs are started")]
public sealed class MudProcessTests
{
    [Fact]
    public async Task Help_names_every_setting()
    {
        using var mud = MudProcess.Run("--help");

        Assert.Equal(0, await mud.WaitForExitAsync());
        Assert.Contains("dotnet run --project samples/MudServer", mud.Output, StringComparison.Ordinal);
        Assert.All(MudServer.Hosting.MudSettings.All, setting => Assert.Contains(setting.Argument, mud.Output, StringComparison.Ordinal));
    }

    [Theory]
    [InlineData("'--prot'", "--prot", "1")]
    [InlineData("--transport takes one of local, memory, masstransit, rabbitmq", "--transport", "pigeon")]
    [InlineData("such as 1/2 for the first of two", "--role", "game", "--shard", "3/2")]
    [InlineData("use it with --role game", "--shard", "1/2")]
    public async Task Wrong_arguments_end_with_2_and_say_why(string expected, params string[] arguments)
    {
        using var mud = MudProcess.Run(arguments);

        Assert.Equal(2, await mud.WaitForExitAsync());
        Assert.Contains(expected, mud.Output, StringComparison.Ordinal);
        Assert.Contains("--help", mud.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("--port", "--http-port")]
    [InlineData("--http-port", "--port")]
    public async Task A_port_in_use_is_an_error_that_names_the_setting(string taken, string other)
    {
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        var port = $"{((IPEndPoint)listener.LocalEndpoint).Port}";

        using var mud = MudProcess.Run(taken, port, other, "0");

        Assert.Equal(1, await mud.WaitForExitAsync());
        Assert.Contains(port, mud.Output, StringComparison.Ordinal);
        Assert.Contains($"with {taken}.", mud.Output, StringComparison.Ordinal);
        Assert.DoesNotContain(" at ", mud.Output, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Both_ways_to_end_it_say_goodbye_after_what_was_asked(bool byCtrlC)
    {
        using var mud = await MudProcess.StartAsync("--port", "0");
        using var ana = await mud.ConnectAsync();
        await ana.LoginAsync("Ana");
        await ana.SendAsync("@dolist lnum(5000)=think ##\r\n");
        await ana.ReadPastAsync("0\r\n");

        if (byCtrlC)
            mud.Interrupt();
        else
            mud.Terminate();
        var rest = await ana.ReadToEndAsync();

        Assert.Contains("4999\r\n", rest, StringComparison.Ordinal);
        Assert.EndsWith("Goodbye!\r\n", rest, StringComparison.Ordinal);
        Assert.Equal(0, await mud.WaitForExitAsync());
    }

    [Theory]
    [InlineData("rabbitmq")]
    [InlineData("masstransit")]
    public async Task Without_its_broker_it_starts_says_why_it_is_not_well_and_ends_in_time(string transport)
    {
        var address = $"amqp://127.0.0.1:{FreePort.Take(1)[0]}/";
        using var mud = await MudProcess.StartAsync("--port", "0", "--transport", transport, "--rabbitmq", address);
        using var ana = await mud.ConnectAsync();
        await ana.SendAsync("connect Ana\r\n");
        await Until.TrueAsync(() => mud.Output.Contains("warn: ", StringComparison.Ordinal));

        mud.Terminate();

        Assert.EndsWith("Goodbye!\r\n", await ana.ReadToEndAsync(), StringComparison.Ordinal);
        Assert.Equal(0, await mud.WaitForExitAsync());
    }
}
