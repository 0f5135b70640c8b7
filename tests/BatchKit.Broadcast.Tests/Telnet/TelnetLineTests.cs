using System.Text;
using BatchKit.Broadcast.Telnet;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class TelnetLineTests
{
    private readonly TelnetScene _scene = new();

    [Theory]
    [InlineData("'look' 0D 0A 'who' 0D 0A")]
    [InlineData("'look' 0D 00 'who' 0D 00")]
    [InlineData("'look' 0A 'who' 0A")]
    [InlineData("'look' 0D 'who' 0D")]
    [InlineData("'look' 0D FF F1 0A 'who' 0D FF F1 0A")]
    public void A_line_ends_however_its_client_ends_it(string input) =>
        Assert.Equal(["look", "who"], _scene.ReadLines(input));

    [Fact]
    public void An_empty_line_is_a_line() => Assert.Equal(["", "", ""], _scene.ReadLines("0D 0A 0D 00 0A"));

    [Fact]
    public void A_line_is_handed_on_at_its_return_and_its_line_feed_in_the_next_read_adds_none()
    {
        var first = _scene.ReadLines("'look' 0D");
        var second = _scene.ReadLines("0A 'who' 0D 0A");

        Assert.Equal(["look"], first);
        Assert.Equal(["who"], second);
    }

    [Theory]
    [InlineData("'lok' 08 'ok' 0A", "look")]
    [InlineData("'lok' 7F 'ok' 0A", "look")]
    [InlineData("'lok' FF F7 'ok' 0A", "look")]
    [InlineData("08 7F FF F7 'look' 0A", "look")]
    [InlineData("'l€' 08 'ook' 0A", "look")]
    [InlineData("'l🏮é' 08 7F 'ook' 0A", "look")]
    [InlineData("'l' 80 BF 08 08 'ook' 0A", "look")]
    [InlineData("'burn the house' FF F8 'look' 0A", "look")]
    public void Rubbing_out_takes_back_whole_characters(string input, string line) => Assert.Equal([line], _scene.ReadLines(input));

    [Fact]
    public void Control_characters_are_taken_out_and_a_tab_is_a_space() =>
        Assert.Equal(["say [31mhi there"], _scene.ReadLines("'say ' 07 1B '[31mhi' 09 C2 9B 'there' 00 0D 0A"));

    [Theory]
    [InlineData(TelnetCharset.Utf8, "'caf' C3 A9 ' ' E9 0A", "café \uFFFD")]
    [InlineData(TelnetCharset.Utf8, "'caf' C3 0A", "caf\uFFFD")]
    [InlineData(TelnetCharset.Utf8, "'a' FF FF 'b' 0A", "a\uFFFDb")]
    [InlineData(TelnetCharset.Latin1, "'caf' E9 FF FF 9B 0A", "caféÿ")]
    [InlineData(TelnetCharset.Latin1, "'caf' E9 E8 08 0A", "café")]
    [InlineData(TelnetCharset.Ascii, "'caf' E9 0A", "caf\uFFFD")]
    public void A_line_is_given_in_UTF8(TelnetCharset charset, string input, string line)
    {
        var options = TelnetScene.Silent;
        options.InitialCharset = charset;
        var scene = new TelnetScene(options);

        Assert.Equal([line], scene.ReadLines(input));
    }

    [Fact]
    public void Commands_inside_a_line_leave_it_as_it_is() =>
        Assert.Equal(["look around"], _scene.ReadLines("'lo' FF F1 'ok' FF F3 FF F4 FF F5 ' ' FF F9 'aro' FF F2 'un' FF EF FF FA 1F 00 50 00 18 FF F0 'd' 0D 0A"));

    [Fact]
    public void A_line_that_is_too_long_is_thrown_away_whole_and_said_to_be()
    {
        var longest = new string('x', 1024);

        var records = _scene.Read($"'{longest}' 0D 0A '{longest}y' 0D 0A 'look' 0A");

        Assert.Equal([(RecordKind.Data, longest), (RecordKind.TooLong, ""), (RecordKind.Data, "look")], records);
    }

    [Fact]
    public void A_line_that_never_ends_keeps_no_more_than_it_may()
    {
        var segment = Encoding.ASCII.GetBytes(new string('x', 4096));
        _scene.Read(segment);
        var before = GC.GetAllocatedBytesForCurrentThread();

        for (var read = 0; read < 1000; read++)
            Assert.Empty(_scene.Read(segment));

        Assert.InRange(GC.GetAllocatedBytesForCurrentThread() - before, 0, 6_000_000);
        Assert.Equal([(RecordKind.TooLong, "")], _scene.Read("0D 0A"));
    }

    [Fact]
    public void More_records_than_a_handler_takes_at_once_come_all_and_in_order()
    {
        var lines = Enumerable.Range(0, 5000).Select(number => $"line {number}").ToArray();

        var records = _scene.Read(Encoding.ASCII.GetBytes(string.Concat(lines.Select(line => line + "\r\n"))));

        Assert.Equal(lines, records.Select(record => record.Text));
    }
}
