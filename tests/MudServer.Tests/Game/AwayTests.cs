using MudServer.Game;
using MudServer.Tests.Support;

namespace MudServer.Tests.Game;

/// <summary>Players between two connections: a gateway has sent them away, and another one brings them back.</summary>
public sealed class AwayTests
{
    private static readonly OutputHandle Ana = OutputHandle.Connection(2, 1);
    private static readonly OutputHandle Bob = OutputHandle.Connection(2, 2);
    private static readonly OutputHandle Again = OutputHandle.Connection(3, 1);
    private static readonly OutputHandle Jetty = LanternIsle.Create()[0].Group;

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_player_that_returns_gets_what_waited_in_order(bool isBuffered)
    {
        await using var game = new GameAlone(isBuffered);
        var token = await SendAwayAsync(game);
        await TypeAsync(game, Bob, "say one", "@pemit Ana=two", "say three");

        await TypeAsync(game, Again, "hello", $"resume {token}");
        await TypeAsync(game, Bob, "@pemit Ana=four");

        Assert.Equal(["Welcome back, Ana. You are #15.", "Bob says, \"one\"", "two", "Bob says, \"three\"", "four"], await ReadSinceReturnAsync(game));
    }

    [Fact]
    public async Task What_waits_is_bounded_and_the_player_is_told_how_much_was_lost()
    {
        const int Lines = 300;
        await using var game = new GameAlone();
        await SendAwayAsync(game);
        await TypeAsync(game, Bob, $"@dolist lnum({Lines})=@pemit Ana=[repeat(x,1000)]", "@pemit Ana=the last");

        await TypeAsync(game, Again, "hello", "connect Ana");

        var lines = await ReadSinceReturnAsync(game);
        var came = lines.Count(line => line.StartsWith("xxx", StringComparison.Ordinal));
        Assert.InRange(came, 1, Lines - 1);
        Assert.Equal(["the last", $"[{Lines - came} more lines were lost while you were away.]"], lines.TakeLast(2));
    }

    [Fact]
    public async Task A_player_that_does_not_return_in_time_leaves_the_island()
    {
        await using var game = new GameAlone();
        var token = await SendAwayAsync(game);
        game.Clock.Advance(TimeSpan.FromSeconds(59));
        await TypeAsync(game, Bob);
        var early = await game.ReadAsync(Jetty);

        game.Clock.Advance(TimeSpan.FromSeconds(15));
        await TypeAsync(game, Again, "hello", $"resume {token}");

        Assert.DoesNotContain("Ana fades into the mist.", early);
        Assert.Contains("Ana fades into the mist.", await game.ReadAsync(Jetty));
        Assert.Contains("That token is not valid any more. Type \"connect <name>\".", await game.ReadAsync(Again));
    }

    [Theory]
    [InlineData("resume 2-1.5.ABC", 2)]
    [InlineData("  RESUME  11-1.5.A-BC ", 11)]
    [InlineData("resume ABC", 0)]
    [InlineData("resume 2-ABC please", 0)]
    [InlineData("connect Ana", 0)]
    public void A_token_names_its_shard(string line, int shard) => Assert.Equal(shard, Lobby.ReadShard(line));

    private static async Task<string> SendAwayAsync(GameAlone game)
    {
        await TypeAsync(game, Bob, "hello", "connect Bob");
        await TypeAsync(game, Ana, "hello", "connect Ana");
        await game.LeaveAsync(Ana);
        await TypeAsync(game, Ana);
        return (await game.ReadAsync(Ana)).Single(line => line.StartsWith("  resume ", StringComparison.Ordinal)).Split(' ')[^1];
    }

    private static async Task TypeAsync(GameAlone game, OutputHandle player, params string[] lines)
    {
        await game.TypeAsync(player, lines);
        await game.WhenAnsweredAsync(player);
    }

    private static async Task<List<string>> ReadSinceReturnAsync(GameAlone game) =>
        [.. (await game.ReadAsync(Again)).SkipWhile(line => !line.StartsWith("Welcome back", StringComparison.Ordinal)).Where(line => line.Length > 0)];
}
