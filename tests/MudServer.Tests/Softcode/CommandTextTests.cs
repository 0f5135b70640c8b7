using MudServer.Softcode;

namespace MudServer.Tests.Softcode;

public sealed class CommandTextTests
{
    [Theory]
    [InlineData("say a", "say a")]
    [InlineData("say a;say b", "say a|say b")]
    [InlineData("{say a;say b}", "say a|say b")]
    [InlineData("@dolist 1 2={say a;say b};say c", "@dolist 1 2={say a;say b}|say c")]
    [InlineData("{say a};{say b}", "say a|say b")]
    [InlineData("say [cat(a;b)];say c", "say [cat(a;b)]|say c")]
    [InlineData(@"say a\;b", @"say a\;b")]
    [InlineData("; ;say a;", "say a")]
    [InlineData("{say a", "{say a")]
    [InlineData("", "")]
    public void Action_lists_part_at_semicolons_outside_of_braces(string text, string expected) =>
        Assert.Equal(expected, string.Join('|', CommandText.SplitActions(text, new SoftcodeBudget(SoftcodeLimits.Standard))));

    [Theory]
    [InlineData("a=b=c", 1)]
    [InlineData("[f(x=y)]=b", 8)]
    [InlineData("{a=b}", -1)]
    [InlineData("a]=b", 2)]
    [InlineData(@"a\=b=c", 4)]
    public void The_equals_sign_is_looked_for_outside_of_brackets(string text, int expected) =>
        Assert.Equal(expected, CommandText.IndexOf(text, '='));
}
