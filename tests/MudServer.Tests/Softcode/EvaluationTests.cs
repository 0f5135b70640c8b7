using MudServer.Tests.Support;

namespace MudServer.Tests.Softcode;

public sealed class EvaluationTests
{
    [Theory]
    [InlineData("plain text", "plain text")]
    [InlineData("%n is %#, in %l.", "Ana is #12, in #3.")]
    [InlineData("100%% %q", "100% q")]
    [InlineData("a%rb", "a\r\nb")]
    [InlineData("a%b%bb", "a  b")]
    [InlineData("at the end %", "at the end %")]
    [InlineData(@"\[add(1,2)\]", "[add(1,2)]")]
    [InlineData("## %i0", "## #-1 NOT IN A LOOP")]
    [InlineData("room #3", "room #3")]
    public void Substitutions_stand_for_what_they_mean(string text, string expected) => Assert.Equal(expected, SomeSoftcode.Evaluate(text));

    [Theory]
    [InlineData("add(1,2)", "3")]
    [InlineData("add(1,2) apples", "3 apples")]
    [InlineData("I have add(1,2)", "I have add(1,2)")]
    [InlineData("I have [add(1,2)]", "I have 3")]
    [InlineData("[add(1,mul(2,3))]", "7")]
    [InlineData("cat(a b,[ucstr(c)]d)", "a b Cd")]
    [InlineData("strlen(a (b, c) d)", "10")]
    [InlineData("hello(there)", "hello(there)")]
    [InlineData("[hello(there, you)]!", "#-1 FUNCTION (HELLO) NOT FOUND!")]
    [InlineData("ADD( 1 , 2 )", "3")]
    [InlineData("{add(1,2)}", "add(1,2)")]
    [InlineData("[cat(a,{b,c})]", "a b,c")]
    [InlineData("sub(1)", "#-1 FUNCTION (SUB) EXPECTS 2 ARGUMENTS BUT GOT 1")]
    [InlineData("add(x,1)", "#-1 ARGUMENTS MUST BE NUMBERS")]
    public void Functions_work_in_brackets_and_bare_at_the_start(string text, string expected) =>
        Assert.Equal(expected, SomeSoftcode.Evaluate(text));

    [Theory]
    [InlineData("sub(5,7)", "-2")]
    [InlineData("mul(2,2.5,2)", "10")]
    [InlineData("div(7,2)", "3")]
    [InlineData("fdiv(7,2)", "3.5")]
    [InlineData("mod(-1,5)", "4")]
    [InlineData("div(1,0)", "#-1 DIVISION BY ZERO")]
    [InlineData("mul(1e300,1e300)", "#-1 NUMBER OUT OF RANGE")]
    [InlineData("min(3,1,2) max(1)", "1 max(1)")]
    [InlineData("abs(-4)", "4")]
    [InlineData("rand(1)", "0")]
    [InlineData("rand(0)", "#-1 OUT OF RANGE")]
    [InlineData("rand(7,7)", "7")]
    public void Numbers_are_calculated(string text, string expected) => Assert.Equal(expected, SomeSoftcode.Evaluate(text));

    [Theory]
    [InlineData("words(a  b c)", "3")]
    [InlineData("words()", "0")]
    [InlineData("words(a||b,|)", "3")]
    [InlineData("first(one two three)", "one")]
    [InlineData("rest(one two three)", "two three")]
    [InlineData("last(one two three)", "three")]
    [InlineData("first()", "")]
    [InlineData("rest(one)", "")]
    [InlineData("strlen(four)", "4")]
    [InlineData("strlen()", "0")]
    [InlineData("repeat(ab,3)", "ababab")]
    [InlineData("repeat(ab,-3)", "")]
    [InlineData("ucstr(a)[lcstr(B)][capstr(c)]", "AbC")]
    [InlineData("reverse(abc)", "cba")]
    [InlineData("lnum(5)", "0 1 2 3 4")]
    [InlineData("lnum(0)", "")]
    [InlineData("lnum(3,5)", "3 4 5")]
    [InlineData("lnum(2,-1)", "2 1 0 -1")]
    [InlineData("lnum(1,3,-)", "1-2-3")]
    [InlineData("lnum(4,4)", "4")]
    public void Lists_and_texts_are_handled(string text, string expected) => Assert.Equal(expected, SomeSoftcode.Evaluate(text));

    [Theory]
    [InlineData("if(1,yes,no)", "yes")]
    [InlineData("if(0,yes,no)", "no")]
    [InlineData("if(0,yes)", "")]
    [InlineData("ifelse(gt(2,1),[add(1,1)],[div(1,0)])", "2")]
    [InlineData("eq(1,1.0)[neq(1,2)][lt(1,2)][lte(2,2)][gte(2,2)][gt(2,2)]", "111110")]
    [InlineData("and(1,a)[or(0,0)][not(0)]", "101")]
    public void Conditions_choose(string text, string expected) => Assert.Equal(expected, SomeSoftcode.Evaluate(text));

    [Theory]
    [InlineData("name(#13)", "Bob")]
    [InlineData("name(me)", "Ana")]
    [InlineData("num(Bob)", "#13")]
    [InlineData("loc(Bob)", "#4")]
    [InlineData("name(nobody)", "#-1 NO MATCH")]
    [InlineData("lwho()", "#12 #13")]
    [InlineData("strlen(time())", "24")]
    public void The_world_answers(string text, string expected) => Assert.Equal(expected, SomeSoftcode.Evaluate(text));

    [Theory]
    [InlineData("iter(a b c,<##>)", "<a> <b> <c>")]
    [InlineData("iter(lnum(3),%i0,,-)", "0-1-2")]
    [InlineData("iter(a|b,##,|,/)", "a/b")]
    [InlineData("iter(,x)", "")]
    [InlineData("iter(a b,[iter(1 2,%i1%i0)])", "a1 a2 b1 b2")]
    [InlineData("iter(a b,[iter(1 2,##)]##)", "1 2a 1 2b")]
    [InlineData("iter(a b,[inum(0)]:[itext(0)])", "1:a 2:b")]
    [InlineData("iter(lnum(3),add(##,1))", "1 2 3")]
    [InlineData("iter(a b,%r,,)", "\r\n\r\n")]
    public void Iter_repeats_its_pattern_for_each_word(string text, string expected) => Assert.Equal(expected, SomeSoftcode.Evaluate(text));

    [Fact]
    public void Ten_thousand_rounds_are_within_the_limits()
    {
        var words = SomeSoftcode.Evaluate("iter(lnum(10000),[add(##,1)])").Split(' ');

        Assert.Equal(10_000, words.Length);
        Assert.Equal("10000", words[^1]);
    }
}
