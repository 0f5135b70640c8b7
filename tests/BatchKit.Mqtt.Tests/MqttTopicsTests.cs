namespace BatchKit.Mqtt.Tests;

/// <summary>Which topic names and filters are taken, and how a bad one is shown.</summary>
public sealed class MqttTopicsTests
{
    [Theory]
    [InlineData("a")]
    [InlineData("/")]
    [InlineData("world/room 7/ütem")]
    [InlineData("$own/topic")]
    public void A_plain_name_is_taken(string topic) => Assert.Null(MqttTopics.FindFaultInName(topic, allowSystemTopics: false));

    [Theory]
    [InlineData("", "empty")]
    [InlineData("a/+/b", "wildcard")]
    [InlineData("a/#", "wildcard")]
    [InlineData("a\0b", "control character")]
    [InlineData("a\nb", "control character")]
    [InlineData("$SYS/broker", "AllowSystemTopics")]
    public void A_bad_name_is_refused_with_the_reason(string topic, string reason) =>
        Assert.Contains(reason, MqttTopics.FindFaultInName(topic, allowSystemTopics: false), StringComparison.Ordinal);

    // Not inline data: attributes are stored as UTF-8, which has no half pairs.
    [Fact]
    public void Half_a_surrogate_pair_is_refused() => Assert.All(["a\uD800b", "a\uDC00b", "\uDC00\uD800", "a\uD800", "\uFFFD beside \uD800"], static topic =>
    {
        var fault = MqttTopics.FindFaultInName(topic, allowSystemTopics: false);

        Assert.Contains("surrogate", fault, StringComparison.Ordinal);
        Assert.Contains(@"\u{FFFD}", fault, StringComparison.Ordinal);
        Assert.DoesNotContain(fault!, char.IsSurrogate);
    });

    [Theory]
    [InlineData("\uFFFD")]
    [InlineData("smile/\uD83D\uDE00")]
    public void What_only_looks_like_half_a_surrogate_pair_is_taken(string topic) => Assert.Null(MqttTopics.FindFaultInName(topic, allowSystemTopics: false));

    [Theory]
    [InlineData("a\uFFFE")]
    [InlineData("a\uFFFF")]
    [InlineData("a\uFDD0")]
    [InlineData("a\uD83F\uDFFF")]
    public void A_code_point_that_is_no_character_is_refused(string topic) =>
        Assert.Contains("no character", MqttTopics.FindFaultInName(topic, allowSystemTopics: false), StringComparison.Ordinal);

    [Fact]
    public void A_system_topic_is_taken_when_allowed() => Assert.Null(MqttTopics.FindFaultInName("$SYS/broker", allowSystemTopics: true));

    [Fact]
    public void A_bad_name_is_shown_cut_short_and_without_control_characters()
    {
        var fault = MqttTopics.FindFaultInName("evil\r\n2026 admin logged in " + new string('x', 1000), allowSystemTopics: false)!;

        Assert.Contains(@"evil\u{D}\u{A}2026", fault, StringComparison.Ordinal);
        Assert.DoesNotContain('\n', fault);
        Assert.True(fault.Length < 300);
    }

    [Theory]
    [InlineData("#")]
    [InlineData("+")]
    [InlineData("a/+/b/#")]
    [InlineData("$share/group/a/#")]
    public void A_plain_filter_is_taken(string filter) => Assert.Null(MqttTopics.FindFaultInFilter(filter));

    [Theory]
    [InlineData("")]
    [InlineData("a+/b")]
    [InlineData("a/#/b")]
    [InlineData("$share/group")]
    [InlineData("$share//a")]
    [InlineData("$share/gr+oup/a")]
    [InlineData("$share/group/")]
    public void A_bad_filter_is_refused(string filter) => Assert.NotNull(MqttTopics.FindFaultInFilter(filter));

    [Theory]
    [InlineData("a/b", "a/b", true)]
    [InlineData("a/b", "a/c", false)]
    [InlineData("a/+", "a/b", true)]
    [InlineData("a/+", "a", false)]
    [InlineData("a/+", "a/", true)]
    [InlineData("a/+", "a/b/c", false)]
    [InlineData("a/#", "a", true)]
    [InlineData("a/#", "a/b/c", true)]
    [InlineData("+/b", "a/b", true)]
    [InlineData("#", "a/b", true)]
    [InlineData("#", "$SYS/b", false)]
    [InlineData("+/b", "$SYS/b", false)]
    [InlineData("$SYS/#", "$SYS/b", true)]
    [InlineData("a", "a/b", false)]
    [InlineData("/+", "/a", true)]
    public void A_filter_matches_as_the_protocol_says(string filter, string topic, bool matches) => Assert.Equal(matches, MqttTopics.Matches(filter, topic));
}
