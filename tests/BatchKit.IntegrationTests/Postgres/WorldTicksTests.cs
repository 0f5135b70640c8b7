using BatchKit.TestServers.Mud;
using BatchKit.TestServers.Processes;
using BatchKit.TestServers.WorldTicks;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The sample as its user starts, kills and ends it.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class WorldTicksTests(PostgresFixture postgres) : IAsyncLifetime
{
    private TicksWay _way = null!;

    public async ValueTask InitializeAsync() => _way = new TicksWay(await postgres.GetAsync());

    [Fact]
    public async Task A_worker_that_is_killed_loses_nothing()
    {
        // More than three such workers get done, so that each of them holds tasks at any time.
        string[] busy = ["--concurrency", "2", "--batch", "20", "--handler-time", "5", "--claim-limit", "2"];
        using var world = _way.Run("world", "--tick", "50", "--npcs", "90", "--seconds", "4", "--finish", "50", "--poison", "500");
        using var first = _way.Run(["worker", "--name", "first", .. busy]);
        using var second = _way.Run(["worker", "--name", "second", .. busy]);
        using var third = _way.Run(["worker", "--name", "third", .. busy]);
        await Task.WhenAll(first.WaitForTaskAsync(), second.WaitForTaskAsync(), third.WaitForTaskAsync());

        second.Kill();

        Assert.Equal(0, await world.WaitForExitAsync());
        TicksWay.AssertAllDone(world);
        Assert.True(world.ReadSummary("retaken") > 0, world.Output);
        Assert.True(world.ReadSummary("second") > 0, world.Output);
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_worker_that_is_told_to_stop_gives_back_what_it_holds(bool byCtrlC)
    {
        using var world = _way.Run("world", "--npcs", "20", "--poison", "0", "--seconds", "2", "--finish", "50");
        using var slow = _way.Run("worker", "--handler-time", "60000");
        await _way.HoldsTasksAsync();

        if (byCtrlC)
            slow.Interrupt();
        else
            slow.Terminate();

        Assert.Equal(0, await slow.WaitForExitAsync());
        Assert.True(slow.ReadSummary("given back") > 0, slow.Output);
        using var quick = _way.Run("worker");
        Assert.Equal(0, await world.WaitForExitAsync());
        TicksWay.AssertAllDone(world);
        Assert.Equal(0, world.ReadSummary("retaken"));
        Assert.Equal(0, world.ReadSummary("doubled"));
    }

    [Fact]
    public async Task Ctrl_C_waits_for_the_open_tasks_and_accounts_for_all()
    {
        using var both = _way.Run("--finish", "50");
        await both.WaitForTaskAsync();

        both.Interrupt();

        Assert.Equal(0, await both.WaitForExitAsync());
        TicksWay.AssertAllDone(both);
    }

    [Fact]
    public async Task A_world_without_workers_leaves_its_tasks_waiting_for_them()
    {
        using var world = _way.Run("world", "--seconds", "1", "--finish", "0", "--poison", "0");

        Assert.Equal(0, await world.WaitForExitAsync());
        Assert.True(world.ReadSummary("waiting") > 0, world.Output);
        Assert.Equal(world.ReadSummary("enqueued"), world.ReadSummary("waiting"));
        Assert.Equal(0, world.ReadSummary("lost"));
    }

    [Fact]
    public async Task A_terminal_shows_the_live_view()
    {
        RequiredServer.SkipWhen(TerminalProgram.WhyMissing("dotnet", "dotnet-sdk-10.0"));
        var server = await postgres.GetAsync();
        var program = BuiltProgram.PathOf("WorldTicks");
        using var terminal = TerminalProgram.Start("dotnet", $"'{program}' --connection '{server.ConnectionString}' --schema '{_way.Schema}' --npcs 20 --seconds 2 --poison 0");

        await terminal.ReadPastAsync("given back");
        await terminal.ReadPastAsync("lost                           0");
    }

    [Theory]
    [InlineData("'play'", "play")]
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
        if (_way is not null)
            await _way.DisposeAsync();
    }
}
