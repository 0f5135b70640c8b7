using MudServer.Game.Commands;
using MudServer.Softcode;
using MudServer.Tests.Support;

namespace MudServer.Tests.Softcode;

public sealed class SoftcodeLimitTests
{
    [Theory]
    [InlineData("iter(lnum(1000),[iter(lnum(1000),)])", "steps")]
    [InlineData("iter(lnum(1000),[words(%i0)][iter(lnum(10),[iter(lnum(100),)])])", "steps")]
    [InlineData("lnum(1000000000000)", "longer")]
    [InlineData("lnum(-999999999999999,999999999999999)", "longer")]
    [InlineData("repeat(x,1000000000000)", "longer")]
    [InlineData("repeat(repeat(x,1000),1000)", "longer")]
    [InlineData("iter(lnum(1000),[strlen(repeat(x,200000))])", "characters of text")]
    [InlineData("iter(repeat(x,250000),[iter(lnum(10000),[words(%i1)])])", "characters of text")]
    [InlineData("space(1000000)", "longer")]
    public void A_runaway_is_stopped_with_the_limit_in_its_message(string text, string expected)
    {
        var exception = Assert.Throws<SoftcodeLimitException>(() => SomeSoftcode.Evaluate(text));

        Assert.Contains(expected, exception.Message, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData('[')]
    [InlineData('{')]
    [InlineData('(')]
    public void Deep_nesting_is_stopped(char opening)
    {
        var exception = Assert.Throws<SoftcodeLimitException>(() => SomeSoftcode.Evaluate(new string(opening, 4000)));

        Assert.Contains("deep", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Deep_braces_around_a_list_of_commands_are_stopped()
    {
        var exception = Assert.Throws<SoftcodeLimitException>(() => ParseList(1000, "x"));

        Assert.Contains("deep", exception.Message, StringComparison.Ordinal);
    }

    [Fact]
    public void Each_level_of_braces_around_a_list_of_commands_costs_its_characters() =>
        Assert.InRange(ParseList(40, new string('x', 4000)).UsedUnits, 40 * 4000 / 500, 50 * 4000 / 500);

    [Theory]
    [InlineData(@"@dolist%ba=[repeat(\{,500)]x[repeat(\},500)]")]
    [InlineData("@dolist lnum(3000)=[if(1,@dolist)] a=<500 braces>")]
    public async Task A_line_with_deep_braces_is_stopped_and_the_game_goes_on(string line)
    {
        var ana = OutputHandle.Connection(2, 1);
        await using var game = new GameAlone();
        await game.TypeAsync(ana, "hello", "connect Ana", line.Replace("<500 braces>", Braces(500, "x"), StringComparison.Ordinal), "think add(1,1)");

        await game.WhenAnsweredAsync(ana);

        var lines = await game.ReadAsync(ana);
        Assert.Contains("Your command was stopped: it was nested more than 50 deep.", lines);
        Assert.Contains("2", lines);
    }

    [Fact]
    public void Nested_functions_are_stopped_too()
    {
        var text = string.Concat(Enumerable.Repeat("add(1,", 1000));

        Assert.Throws<SoftcodeLimitException>(() => SomeSoftcode.Evaluate(text));
    }

    [Fact]
    public void Whatever_is_typed_gives_a_text_or_a_limit()
    {
        string[] pieces =
        [
            "[", "]", "(", ")", "{", "}", ",", ";", "=", "%", "#", "##", "%i0", "%i9", "%#", "\\", " ", "-1", "0", "7", "999999999999", "1e308",
            "a b c", "iter(", "lnum(", "repeat(", "add(", "div(", "mod(", "rand(", "if(", "cat(", "words(", "rest(", "last(", "strlen(", "itext(",
            "reverse(", "space(", "name(", "loc(", "time(", "shuffle(", "capstr(", "\u00e9", "\ud83d", "\t",
        ];
        var limits = new SoftcodeLimits { MaxSteps = 2000, MaxTextCharacters = 4096, MaxTotalCharacters = 100_000 };
        var random = new Random(20_26);
        for (var round = 0; round < 20_000; round++)
        {
            var text = string.Concat(Enumerable.Range(0, random.Next(1, 40)).Select(_ => pieces[random.Next(pieces.Length)]));

            var exception = Record.Exception(() => SomeSoftcode.Evaluate(text, limits));

            Assert.True(exception is null or SoftcodeLimitException, $"{text}: {exception}");
        }
    }

    private static SoftcodeBudget ParseList(int braces, string text)
    {
        var budget = new SoftcodeBudget(SoftcodeLimits.Standard);
        ParsedAction.ParseList(Braces(braces, text), FunctionTable.Standard, budget);
        return budget;
    }

    private static string Braces(int count, string text) => $"{new string('{', count)}{text}{new string('}', count)}";
}
