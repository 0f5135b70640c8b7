using BatchKit.TestServers.Mud;
using BatchKit.TestServers.Network;
using BatchKit.TestServers.Postgres;
using BatchKit.TestServers.WorldTicks;
using BatchKit.TransportSpecification.Support;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The sample as its user starts, kills and ends it, with a server of its own.</summary>
public sealed class WorldTicksTests : IAsyncLifetime
{
    private PostgresServer _server = null!;
    private TestSchema _schema = null!;

    public async ValueTask InitializeAsync()
    {
        RequiredServer.SkipWhen(PostgresServer.WhyNotInstalled);
        _server = await PostgresServer.StartOwnAsync();
        _schema = TestSchema.On(_server, "game \"one\"");
    }

    [Fact]
    public async Task A_worker_that_is_killed_loses_nothing()
    {
        // More than three workers get done, so that each of them holds tasks at any time.
        using var world = Run("world", "--tick", "100", "--npcs", "250", "--seconds", "6", "--finish", "45", "--poison", "500");
        using var first = Run("worker", "--name", "first", "--handler-time", "5", "--claim-limit", "2");
        using var second = Run("worker", "--name", "second", "--handler-time", "5", "--claim-limit", "2");
        using var third = Run("worker", "--name", "third", "--handler-time", "5", "--claim-limit", "2");
        await Task.WhenAll(first.WaitForTaskAsync(), second.WaitForTaskAsync(), third.WaitForTaskAsync());

        second.Kill();

        Assert.Equal(0, await world.WaitForExitAsync());
        AssertAllDone(world);
        Assert.True(world.ReadSummary("retaken") > 0, world.Output);
        Assert.True(world.ReadSummary("second") > 0, world.Output);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_worker_that_is_told_to_stop_gives_back_what_it_holds(bool byCtrlC)
    {
        using var world = Run("world", "--npcs", "20", "--poison", "0", "--seconds", "2", "--finish", "45");
        using var slow = Run("worker", "--handler-time", "60000");
        await HoldsTasksAsync();

        if (byCtrlC)
            slow.Interrupt();
        else
            slow.Terminate();

        Assert.Equal(0, await slow.WaitForExitAsync());
        Assert.True(slow.ReadSummary("given back") > 0, slow.Output);
        using var quick = Run("worker");
        Assert.Equal(0, await world.WaitForExitAsync());
        AssertAllDone(world);
        Assert.Equal(0, world.ReadSummary("retaken"));
        Assert.Equal(0, world.ReadSummary("doubled"));
    }

    [Fact]
    public async Task A_server_that_stops_and_starts_again_is_found_again()
    {
        using var both = Run("--seconds", "8", "--finish", "45");
        await both.WaitForTaskAsync();

        await _server.StopAsync();
        await both.WaitForOutputAsync("can't be reached");
        await _server.StartAsync();

        Assert.Equal(0, await both.WaitForExitAsync());
        AssertAllDone(both);
    }

    [Fact]
    public async Task Ctrl_C_waits_for_the_open_tasks_and_accounts_for_all()
    {
        using var both = Run("--finish", "45");
        await both.WaitForTaskAsync();

        both.Interrupt();

        Assert.Equal(0, await both.WaitForExitAsync());
        AssertAllDone(both);
    }

    [Fact]
    public async Task A_world_without_workers_leaves_its_tasks_waiting_for_them()
    {
        using var world = Run("world", "--seconds", "1", "--finish", "0", "--poison", "0");

        Assert.Equal(0, await world.WaitForExitAsync());
        Assert.True(world.ReadSummary("waiting") > 0, world.Output);
        Assert.Equal(world.ReadSummary("enqueued"), world.ReadSummary("waiting"));
        Assert.Equal(0, world.ReadSummary("lost"));
    }

    [Fact]
    public async Task A_terminal_shows_the_live_view()
    {
        RequiredServer.SkipWhen(TerminalProgram.WhyMissing("dotnet", "dotnet-sdk-10.0"));
        var program = Path.Combine(AppContext.BaseDirectory, "WorldTicks.dll");
        using var terminal = TerminalProgram.Start("dotnet", $"'{program}' --connection '{_server.ConnectionString}' --npcs 20 --seconds 2 --poison 0");

        await terminal.ReadPastAsync("given back");
        await terminal.ReadPastAsync("lost                           0");
    }

    [Fact]
    public async Task No_server_ends_with_1_and_a_sentence_without_the_password()
    {
        var port = FreePort.Take(1)[0];
        using var world = WorldTicksProcess.Run("world", "--connection", $"Host=127.0.0.1;Port={port};Username=game;Password=secret");

        Assert.Equal(1, await world.WaitForExitAsync());
        Assert.Contains($"PostgreSQL at 127.0.0.1:{port} can't be reached: ", world.Output, StringComparison.Ordinal);
        Assert.DoesNotContain("secret", world.Output, StringComparison.Ordinal);
    }

    [Fact]
    public async Task A_server_that_comes_late_is_waited_for_when_asked_to()
    {
        await _server.StopAsync();
        using var both = Run("--wait", "55", "--seconds", "1", "--finish", "45");

        await _server.StartAsync();

        Assert.Equal(0, await both.WaitForExitAsync());
        AssertAllDone(both);
    }

    [Theory]
    [InlineData("\"play\" is not a command", "play")]
    [InlineData("--npcs is not for a worker", "worker", "--npcs", "3")]
    [InlineData("--tick takes a number from 10 to 60000, and \"0\" is not.", "world", "--tick", "0")]
    public async Task Wrong_arguments_end_with_2_and_say_why(string expected, params string[] arguments)
    {
        using var program = WorldTicksProcess.Run(arguments);

        Assert.Equal(2, await program.WaitForExitAsync());
        Assert.Contains(expected, program.Output, StringComparison.Ordinal);
    }

    public async ValueTask DisposeAsync()
    {
        if (_schema is not null)
            await _schema.DisposeAsync();
        if (_server is not null)
            await _server.DisposeAsync();
    }

    private WorldTicksProcess Run(params string[] arguments)
    {
        // A command comes first.
        var words = arguments.TakeWhile(argument => !argument.StartsWith("--", StringComparison.Ordinal)).ToArray();
        return WorldTicksProcess.Run([.. words, "--plain", "--connection", _server.ConnectionString, "--schema", _schema.Name, .. arguments.Skip(words.Length)]);
    }

    private async Task HoldsTasksAsync()
    {
        using var deadline = new CancellationTokenSource(Deadline.Time);
        while (!await HasClaimsAsync())
            await Task.Delay(TimeSpan.FromMilliseconds(50), deadline.Token);
    }

    private async Task<bool> HasClaimsAsync() =>
        await _schema.ScalarAsync<string>("select to_regclass('{s}.claims')::text") is not null && await _schema.ScalarAsync<bool>("select exists (select from {s}.claims)");

    private static void AssertAllDone(WorldTicksProcess world)
    {
        var enqueued = world.ReadSummary("enqueued");
        Assert.True(enqueued > 0, world.Output);
        Assert.Equal(0, world.ReadSummary("lost"));
        Assert.Equal(0, world.ReadSummary("out of order"));
        Assert.Equal(0, world.ReadSummary("waiting"));
        Assert.Equal(0, world.ReadSummary("claimed"));
        Assert.Equal(enqueued, world.ReadSummary("done") + world.ReadSummary("dead"));
    }
}
