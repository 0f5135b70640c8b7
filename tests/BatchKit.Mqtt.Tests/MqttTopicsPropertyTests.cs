using System.Text;
using System.Text.RegularExpressions;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Mqtt.Tests;

public sealed class MqttTopicsPropertyTests
{
    private static readonly Config TwoThousand = Config.QuickThrowOnFailure.WithMaxTest(2000).WithEndSize(30);

    // Pieces that break the rules alone, together, or not at all.
    private static readonly Gen<string> Topics = Gen.Frequency(
        (20, Gen.Constant("a")), (5, Gen.Constant("/")), (4, Gen.Elements("é", "中", "😀", "\uFFFD", "$SYS", "'", "\\")),
        (1, Gen.Elements("+", "#", "\0", "\n", "\u0085", "\uD83D", "\uDE00", "\uFFFE", "\uFDEF", "\uDBFF\uDFFF"))).ArrayOf().Select(string.Concat);

    private static readonly Gen<string> Levels = Gen.Elements("a", "b", "", "$a");

    private static readonly Gen<(string Filter, string Topic)> Pairs =
        from topic in Levels.NonEmptyListOf()
        from filter in Gen.OneOf(Gen.Constant(topic), Levels.NonEmptyListOf())
        from isWild in Gen.Elements(true, false, false).ArrayOf(filter.Count)
        from end in Gen.Elements("", "/#", "/+", "#")
        let levels = string.Join('/', filter.Select((level, index) => isWild[index] ? "+" : level))
        select (end == "#" ? "#" : levels + end, string.Join('/', topic));

    [Fact]
    public void A_name_is_taken_exactly_when_the_specification_lets_it_be_written() => Check.One(TwoThousand, Prop.ForAll(Topics.ToArbitrary(), static topic =>
    {
        var isAllowed = topic.Length > 0 && !topic.StartsWith("$SYS", StringComparison.Ordinal)
            && Regex.IsMatch(topic, @"\A([^+#\x00-\x1F\x7F-\x9F\uD800-\uDFFF\uFDD0-\uFDEF\uFFFE\uFFFF]|[\uD800-\uDBFF][\uDC00-\uDFFF])*\z", RegexOptions.NonBacktracking | RegexOptions.ExplicitCapture)
            && !Regex.IsMatch(topic, @"[\uD83F\uD87F\uD8BF\uD8FF\uD93F\uD97F\uD9BF\uD9FF\uDA3F\uDA7F\uDABF\uDAFF\uDB3F\uDB7F\uDBBF\uDBFF][\uDFFE\uDFFF]", RegexOptions.NonBacktracking);

        Assert.Equal(isAllowed, MqttTopics.FindFaultInName(topic, allowSystemTopics: false) is null);
        if (isAllowed)
            Assert.Equal(topic, Encoding.UTF8.GetString(Encoding.UTF8.GetBytes(topic)));
    }));

    [Fact]
    public void However_bad_a_topic_is_it_is_shown_in_one_line_of_plain_text() => Check.One(TwoThousand, Prop.ForAll(Topics.ToArbitrary(), static topic =>
    {
        var shown = MqttTopics.Show(topic);

        Assert.All(shown.EnumerateRunes(), static rune => Assert.True(rune.Value is >= ' ' and < 0x7F || Rune.IsLetterOrDigit(rune)));
        Assert.StartsWith("'", shown, StringComparison.Ordinal);
        Assert.DoesNotContain('\'', shown[1..^1]);
    }));

    [Fact]
    public void A_filter_matches_what_a_regular_expression_of_it_matches() => Check.One(TwoThousand, Prop.ForAll(Pairs.ToArbitrary(), static pair =>
    {
        var (filter, topic) = pair;
        var pattern = filter == "#" ? ".*" : Regex.Escape(filter).Replace(@"\+", "[^/]*", StringComparison.Ordinal).Replace(@"/\#", "(/.*)?", StringComparison.Ordinal);
        // Section 4.7.2.
        var isHidden = topic.StartsWith('$') && filter is ['+' or '#', ..];

        Assert.Equal(!isHidden && Regex.IsMatch(topic, $@"\A{pattern}\z", RegexOptions.NonBacktracking | RegexOptions.ExplicitCapture), MqttTopics.Matches(filter, topic));
    }));
}
