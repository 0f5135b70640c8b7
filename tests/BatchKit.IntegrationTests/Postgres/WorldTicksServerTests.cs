using BatchKit.TestServers.Network;
using BatchKit.TestServers.WorldTicks;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The sample with a server that is not there, or not all the time.</summary>
[Trait("Lane", "night: programs are started")]
public sealed class WorldTicksServerTests(OwnPostgresFixture postgres) : IClassFixture<OwnPostgresFixture>
{
    [Fact]
    public async Task A_server_that_stops_and_starts_again_is_found_again()
    {
        var server = await postgres.GetAsync();
        await using var way = new TicksWay(server);
        using var both = way.Run("--seconds", "8", "--finish", "45");
        await both.WaitForTaskAsync();

        await server.StopAsync();
        await both.WaitForOutputAsync("can't be reached");
        await server.StartAsync();

        Assert.Equal(0, await both.WaitForExitAsync());
        TicksWay.AssertAllDone(both);
    }

    [Fact]
    public async Task A_server_that_comes_late_is_waited_for_when_asked_to()
    {
        var server = await postgres.GetAsync();
        await using var way = new TicksWay(server);
        await server.StopAsync();
        using var both = way.Run("--wait", "60", "--seconds", "1", "--finish", "45");

        await server.StartAsync();

        Assert.Equal(0, await both.WaitForExitAsync());
        TicksWay.AssertAllDone(both);
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
}
