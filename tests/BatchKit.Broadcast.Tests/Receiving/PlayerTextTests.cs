using System.Text;
using FsCheck;
using FsCheck.Fluent;

namespace BatchKit.Broadcast.Tests.Receiving;

public sealed class PlayerTextTests
{
    [Theory]
    [InlineData("plain text", "plain text")]
    [InlineData("grüße, “quoted” …€🏮", "grüße, “quoted” …€🏮")]
    [InlineData("\u001b[2J\u001b]0;title\u0007", "[2J]0;title")]
    [InlineData("a\u009b31mb\u0000\u007fc", "a31mbc")]
    [InlineData("one\r\ntwo\nthree\rfour", "one two three four")]
    [InlineData("one\u0085two\u2028three\u2029four\vfive\fsix\tseven", "one two three four five six seven")]
    [InlineData("a\u202a\u202b\u202c\u202d\u202eb\u2066\u2067\u2068\u2069c", "abc")]
    [InlineData("a\u115f\u1160\u3164\uffa0\U00013441\U00013442b", "ab")]
    [InlineData("日本語、ﾃｽﾄ 한글 ខ្មែរ Việt 𓐍 👩‍👩‍👧", "日本語、ﾃｽﾄ 한글 ខ្មែរ Việt 𓐍 👩‍👩‍👧")]
    [InlineData("שלום\u200fעולם", "שלום\u200fעולם")]
    public void Text_is_filtered(string text, string filtered) => Assert.Equal(filtered, PlayerText.Filter(text));

    [Fact]
    public void Line_feeds_are_kept_where_the_text_is_split_afterwards() =>
        Assert.Equal("one\ntwo\nthree four", PlayerText.Filter("one\r\ntwo\nthree\rfour", keepsLineFeeds: true));

    [Fact]
    public void Bytes_that_are_not_UTF8_are_replaced()
    {
        var filtered = new byte[PlayerText.GetMaxBytes(3)];

        var length = PlayerText.Filter([(byte)'a', 0xFF, (byte)'b'], filtered);

        Assert.Equal("a\uFFFDb", Encoding.UTF8.GetString(filtered.AsSpan(0, length)));
    }

    [Theory]
    [InlineData(0, 0)]
    [InlineData(1 << 29, 3 << 29)]
    [InlineData((1 << 29) + 1, null)]
    [InlineData(1 << 30, null)]
    [InlineData(-1, null)]
    public void Filtered_text_of_up_to_512_MiB_fits_into_an_array(int bytes, int? most)
    {
        if (most is { } expected)
            Assert.Equal(expected, PlayerText.GetMaxBytes(bytes));
        else
            Assert.Throws<ArgumentOutOfRangeException>(() => PlayerText.GetMaxBytes(bytes));
    }

    [Fact]
    public void Whatever_is_filtered_in_place_is_clean_and_filtering_it_again_changes_nothing() =>
        Check.One(Config.QuickThrowOnFailure.WithMaxTest(5000), Prop.ForAll(ArbMap.Default.ArbFor<string>().Filter(text => text is not null), text =>
        {
            var bytes = Encoding.UTF8.GetBytes(text);
            var length = PlayerText.Filter(bytes, bytes);
            var filtered = Encoding.UTF8.GetString(bytes.AsSpan(0, length));
            return filtered == PlayerText.Filter(filtered) && !filtered.EnumerateRunes().Any(rune => Rune.IsControl(rune) || rune.Value is 0x2028 or 0x2029 or 0x202E);
        }));
}
