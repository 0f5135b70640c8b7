using BatchKit.Testing;
using MudServer.Softcode;
using MudServer.Tests.Support;

namespace MudServer.Tests.Softcode;

public sealed class SoftcodeAllowanceTests
{
    private readonly ManualTimeProvider _clock = new();

    [Fact]
    public void A_players_lines_share_an_allowance_that_refills()
    {
        var allowance = new SoftcodeAllowance(maxUnits: 1000, unitsPerSecond: 100, _clock);
        var full = allowance.Available;
        allowance.Spend(1200);

        var after = allowance.Available;
        _clock.Advance(TimeSpan.FromSeconds(5));
        var later = allowance.Available;
        _clock.Advance(TimeSpan.FromHours(1));

        Assert.Equal((1000, -200, 300, 1000), (full, after, later, allowance.Available));
    }

    [Theory]
    [InlineData("iter(lnum(100),add(%i0,1))")]
    [InlineData("strlen(repeat(x,100000))")]
    [InlineData("words(lnum(2000))")]
    [InlineData("strlen(reverse(repeat(x,20000)))")]
    [InlineData("words(repeat(a,3000),[repeat(a,500)]b[repeat(a,500)])")]
    public void A_line_that_needs_more_than_the_player_may_use_is_stopped(string text)
    {
        var budget = new SoftcodeBudget(SoftcodeLimits.Standard, availableUnits: 100);
        var evaluation = new Evaluation(SomeSoftcode.Ana, new TwoPlayers(), budget, new Random(1), _clock);

        var exception = Assert.Throws<SoftcodeLimitException>(() => SoftcodeParser.Parse(text, FunctionTable.Standard, budget).Evaluate(evaluation));

        Assert.Contains("for one player", exception.Message, StringComparison.Ordinal);
        Assert.InRange(budget.UsedUnits, 100, 400);
    }

    [Fact]
    public void A_message_costs_more_the_more_players_hear_it()
    {
        var (alone, crowd) = (new SoftcodeBudget(SoftcodeLimits.Standard), new SoftcodeBudget(SoftcodeLimits.Standard));

        alone.SpendOutput(4000, listeners: 0);
        crowd.SpendOutput(4000, listeners: 100);

        Assert.InRange(alone.UsedUnits, 8, 10);
        Assert.InRange(crowd.UsedUnits, 500, 1000);
    }
}
