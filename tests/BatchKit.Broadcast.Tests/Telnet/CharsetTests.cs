using BatchKit.Broadcast.Telnet;
using static BatchKit.Broadcast.Tests.Telnet.TelnetScene;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class CharsetTests
{
    private const string AskedByServer = "FF FB 2A FF FA 2A 01 ';UTF-8;ISO-8859-1;US-ASCII' FF F0";

    [Theory]
    [InlineData("';UTF-8'", "'UTF-8'", TelnetCharset.Utf8)]
    [InlineData("' ascii iso-8859-1 utf-8'", "'utf-8'", TelnetCharset.Utf8)]
    [InlineData("';US-ASCII;ISO-8859-1;KOI8-R'", "'ISO-8859-1'", TelnetCharset.Latin1)]
    [InlineData("';US-ASCII;KOI8-R'", "'US-ASCII'", TelnetCharset.Ascii)]
    [InlineData("'[TTABLE]' 01 ';LATIN1'", "'LATIN1'", TelnetCharset.Latin1)]
    public void The_best_of_the_clients_charsets_is_accepted(string names, string accepted, TelnetCharset charset)
    {
        var scene = new TelnetScene();

        scene.Read($"FF FB 2A FF FA 2A 01 {names} FF F0");

        Assert.Equal(Bytes($"FF FD 2A FF FA 2A 02 {accepted} FF F0"), scene.Sent);
        Assert.Equal((charset, charset), (scene.Terminal.Charset, scene.Connection.Format.Charset));
    }

    [Theory]
    [InlineData("';KOI8-R;'")]
    [InlineData("")]
    [InlineData("'[TTABLE]'")]
    [InlineData("'[TTABLE]' 01")]
    public void Charsets_that_are_not_known_are_rejected(string names)
    {
        var scene = new TelnetScene();

        scene.Read($"FF FB 2A FF FA 2A 01 {names} FF F0");

        Assert.Equal(Bytes("FF FD 2A FF FA 2A 03 FF F0"), scene.Sent);
        Assert.Equal(TelnetCharset.Utf8, scene.Terminal.Charset);
    }

    [Fact]
    public void The_server_asks_and_the_client_chooses()
    {
        var scene = new TelnetScene();

        scene.Read("FF FD 2A");
        Assert.Equal(Bytes(AskedByServer), scene.Sent);
        var lines = scene.ReadLines("C3 A9 0A FF FA 2A 02 'iso-8859-1' FF F0 E9 0A");

        Assert.Equal(["é", "é"], lines);
        Assert.Equal(TelnetCharset.Latin1, scene.Connection.Format.Charset);
        Assert.Equal(Bytes(AskedByServer), scene.Sent);
    }

    [Fact]
    public void A_client_that_rejects_all_keeps_the_charset_it_began_with()
    {
        var options = Silent;
        options.InitialCharset = TelnetCharset.Latin1;
        var scene = new TelnetScene(options);

        scene.Read("FF FD 2A FF FA 2A 03 FF F0 FF FA 2A 02 'UTF-8' FF F0");

        Assert.Equal(TelnetCharset.Latin1, scene.Terminal.Charset);
    }

    [Fact]
    public void When_both_ask_at_once_the_server_refuses_and_takes_the_clients_answer()
    {
        var scene = new TelnetScene();

        scene.Read("FF FD 2A FF FA 2A 01 ';US-ASCII' FF F0 FF FA 2A 02 'ISO-8859-1' FF F0");

        Assert.Equal(Bytes($"{AskedByServer} FF FA 2A 03 FF F0"), scene.Sent);
        Assert.Equal(TelnetCharset.Latin1, scene.Terminal.Charset);
    }
}
