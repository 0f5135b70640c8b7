using MudServer.Tests.Support;

namespace MudServer.Tests.Game;

public sealed class SlowAnswersTests
{
    private static readonly OutputHandle Ana = OutputHandle.Connection(2, 1);
    private static readonly OutputHandle Bob = OutputHandle.Connection(2, 2);

    [Theory]
    [InlineData("buffering off", "@dolist lnum(1000)=@pemit me=line ##", "line 0")]
    [InlineData("buffering off", "say Hello!", "You say")]
    [InlineData("buffering off", "compare", "line 0")]
    [InlineData("buffering on", "compare", "line 0")]
    [InlineData("timing on", "look", "The Jetty")]
    public async Task Another_players_line_leaves_in_the_next_send_whatever_one_player_waits_for(string setting, string command, string text)
    {
        await using var game = new GameAlone();
        await LoginAsync(game, setting);
        var stalled = game.StallAt(text);
        await game.TypeAsync(Ana, command);
        await stalled.Begun.WithinDeadline();
        var index = game.Sends.Count - 1;

        await game.TypeAsync(Bob, "think hello");
        await game.WhenAnsweredAsync(Bob);
        stalled.Released.SetResult();
        await game.StopAsync();

        Assert.Equal(index + 1, game.Sends.ToList().FindIndex(lines => lines.Contains("hello")));
    }

    [Fact]
    public async Task A_players_next_line_comes_after_all_of_the_last_answer()
    {
        await using var game = new GameAlone();
        await LoginAsync(game, "buffering off");

        await game.TypeAsync(Ana, "@dolist lnum(1000)=@pemit me=line ##", "compare", "think after");
        await game.StopAsync();

        string[] own = [.. game.Sends.SelectMany(lines => lines).Where(text => text.StartsWith("line ", StringComparison.Ordinal) || text is "after" || text.EndsWith("times as fast.", StringComparison.Ordinal))];
        Assert.Equal(Enumerable.Range(0, 1000).Select(number => $"line {number}"), own[..1000]);
        Assert.Equal("after", own[^1]);
        Assert.EndsWith("times as fast.", own[^2], StringComparison.Ordinal);
    }

    [Fact]
    public async Task Who_comes_while_many_passwords_wait_is_told_so_and_waits_for_none_of_them()
    {
        await using var game = new GameAlone();
        OutputHandle[] strangers = [.. Enumerable.Range(1, 40).Select(number => OutputHandle.Connection(3, number))];

        foreach (var stranger in strangers)
            await game.TypeAsync(stranger, "hello", $"login Name{stranger.Number & 63}", "lantern-1");
        await Task.WhenAll(strangers.Select(game.WhenAnsweredAsync));

        var answers = await Task.WhenAll(strangers.Select(game.ReadAsync));
        var entered = answers.Count(static lines => lines.Any(static line => line.StartsWith("Welcome, ", StringComparison.Ordinal)));
        var refused = answers.Count(static lines => lines.Contains("Many passwords are being checked. Try again in a moment."));
        Assert.Equal(strangers.Length, entered + refused);
        Assert.InRange(entered, 10, 39);
    }

    private static async Task LoginAsync(GameAlone game, string setting)
    {
        await game.TypeAsync(Bob, "hello", "connect Bob");
        await game.WhenAnsweredAsync(Bob);
        await game.TypeAsync(Ana, "hello", "connect Ana", setting);
        await game.WhenAnsweredAsync(Ana);
    }
}
