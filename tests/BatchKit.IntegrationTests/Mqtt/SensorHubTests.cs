using BatchKit.TestServers.Mosquitto;
using BatchKit.TestServers.Mud;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Processes;
using BatchKit.TestServers.SensorHub;

namespace BatchKit.IntegrationTests.Mqtt;

/// <summary>The sample as its user starts and ends it, against a broker of its own.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class SensorHubTests : IAsyncLifetime
{
    // What the subscriber has not taken yet waits at the broker, however slow the machine.
    private static readonly MosquittoServerOptions KeepsAll = new() { MaxQueued = 0 };

    private MosquittoServer _server = null!;

    public async ValueTask InitializeAsync()
    {
        RequiredServer.SkipWhen(MosquittoServer.WhyNotInstalled);
        _server = await MosquittoServer.StartOwnAsync(KeepsAll);
    }

    [Theory]
    [InlineData("--version", "5")]
    [InlineData("--version", "3.1.1")]
    [InlineData("--baseline")]
    public async Task What_it_writes_is_acknowledged_and_arrives(params string[] arguments)
    {
        using var hub = Run(["--seconds", "3", .. arguments]);

        Assert.Equal(0, await hub.WaitForExitAsync());
        AssertNothingLost(hub);
        Assert.Equal(0, hub.ReadSummary("doubled"));
    }

    [Theory]
    [InlineData("5")]
    [InlineData("3.1.1")]
    public async Task A_broker_that_stops_and_starts_again_loses_nothing(string version)
    {
        using var hub = Run("--seconds", "12", "--version", version);
        await hub.WaitForArrivalsAsync();

        await _server.StopAsync();
        await hub.WaitForOutputAsync("can't be reached");
        await _server.StartAsync();

        Assert.Equal(0, await hub.WaitForExitAsync());
        AssertNothingLost(hub);
        Assert.Contains("  2 connects", hub.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Ctrl_C_delivers_what_was_written()
    {
        using var hub = Run();
        await hub.WaitForArrivalsAsync();

        hub.Interrupt();

        Assert.Equal(0, await hub.WaitForExitAsync());
        AssertNothingLost(hub);
    }

    [Fact]
    public async Task A_broker_that_is_down_at_the_start_is_waited_for()
    {
        await _server.StopAsync();
        using var hub = Run("--seconds", "1");
        await hub.WaitForOutputAsync("waiting for the broker");

        await _server.StartAsync();

        Assert.Equal(0, await hub.WaitForExitAsync());
        AssertNothingLost(hub);
    }

    [Fact]
    public async Task Waiting_for_the_broker_may_have_a_limit()
    {
        var address = $"mqtt://127.0.0.1:{FreePort.Take(1)[0]}";
        using var hub = SensorHubProcess.Run("--server", address, "--wait", "1");

        Assert.Equal(1, await hub.WaitForExitAsync());
        Assert.Contains($"{address} can't be reached", hub.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_terminal_shows_the_live_view()
    {
        RequiredServer.SkipWhen(TerminalProgram.WhyMissing("dotnet", "dotnet-sdk-10.0"));
        var program = BuiltProgram.PathOf("SensorHub");
        using var terminal = TerminalProgram.Start("dotnet", $"'{program}' --server {_server.Address} --rate 1000 --seconds 2");

        await terminal.ReadPastAsync("messages a send");
        await terminal.ReadPastAsync("lost                        0");
    }

    [Fact]
    public async Task The_help_names_the_settings()
    {
        using var hub = SensorHubProcess.Run("--help");

        Assert.Equal(0, await hub.WaitForExitAsync());
        await hub.WaitForOutputAsync("  --client-id <id> ");
        await hub.WaitForOutputAsync("  --plain ");
    }

    [Theory]
    [InlineData("--rate takes a number from 1 to 200000, and \"0\" is not.", "--rate", "0")]
    [InlineData("--qos takes a number from 0 to 1, and \"2\" is not.", "--qos", "2")]
    [InlineData("--server takes an address", "--server", "mqtt://game:secret@localhost")]
    [InlineData("--plain takes on or off, and \"perhaps\" is not.", "--plain=perhaps")]
    [InlineData("'--topics'", "--topics")]
    [InlineData("'--topics'", "--topics", "1", "--topics", "2")]
    [InlineData("'--sever'", "--sever", "mqtt://localhost")]
    public async Task Wrong_arguments_end_with_2_and_say_why(string expected, params string[] arguments)
    {
        using var hub = SensorHubProcess.Run(arguments);

        Assert.Equal(2, await hub.WaitForExitAsync());
        Assert.Contains(expected, hub.Output, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", hub.Output, StringComparison.Ordinal);
    }

    public async ValueTask DisposeAsync()
    {
        if (_server is not null)
            await _server.DisposeAsync();
    }

    // A rate that a busy machine reaches too, and whose backlog it sends within the drain: what is asked here is whether anything gets lost.
    private SensorHubProcess Run(params string[] arguments) =>
        SensorHubProcess.Run(["--plain", "--server", $"{_server.Address}", "--rate", "1000", .. arguments]);

    private static void AssertNothingLost(SensorHubProcess hub)
    {
        var written = hub.ReadSummary("written");
        Assert.True(written > 0, hub.Output);
        Assert.Equal(written, hub.ReadSummary("acknowledged"));
        Assert.Equal(written, hub.ReadSummary("arrived"));
        Assert.Equal(0, hub.ReadSummary("lost"));
    }
}
