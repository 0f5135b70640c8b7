using System.Text;
using BatchKit.Broadcast.Telnet;
using static BatchKit.Broadcast.Tests.Telnet.TelnetScene;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class ClientVariableTests
{
    private const string Ask = "FF FA 27 01 00 'CLIENT_NAME' 00 'CLIENT_VERSION' 00 'CHARSET' 00 'MTTS' 00 'TERMINAL_TYPE' FF F0";

    private readonly TelnetScene _scene = new();

    [Fact]
    public void A_client_that_agrees_is_asked_by_name_and_says_what_it_is()
    {
        _scene.Read("FF FB 27 FF FA 27 00 00 'CLIENT_NAME' 01 'Mudlet' 00 'CLIENT_VERSION' 01 '4.17.2' 00 'CHARSET' 01 'ISO-8859-1' 00 'MTTS' 01 '525' 00 'TERMINAL_TYPE' 01 'ANSI' FF F0");

        Assert.Equal(Bytes($"FF FD 27 {Ask}"), _scene.Sent);
        Assert.Equal("Mudlet 4.17.2 Latin1 Ansi, Utf8, Colors256, Mnes ANSI", Known());
        Assert.Equal(["café"], _scene.ReadLines("'caf' E9 0A"));
    }

    [Fact]
    public void Variables_may_come_one_by_one_and_change_later()
    {
        _scene.Read("FF FB 27 FF FA 27 00 00 'CLIENT_NAME' 01 'TINTIN++' FF F0 FF FA 27 00 03 'CLIENT_VERSION' 01 '2.02' FF F0");
        _scene.Read("FF FA 27 02 00 'CHARSET' 01 'US-ASCII' FF F0");

        Assert.Equal("TINTIN++ 2.02 Ascii None ", Known());
    }

    [Theory]
    [InlineData("00 00 'IPADDRESS' 01 '10.0.0.1' 00 'USER' 01 'root' 03 'SHELL' 01 'x'")]
    [InlineData("00 00 'CLIENT_NAME' 00 'MTTS' 00")]
    [InlineData("00 00 'CLIENT_NAME' 01 00 'CLIENT_VERSION' 01 1B 07 00 'MTTS' 01 00 'CHARSET' 01")]
    [InlineData("00 01 'CLIENT_NAME' 01 'x' 'CLIENT_NAME' 01 'x'")]
    [InlineData("00 00 'client_name' 01 'x' 00 'CLIENT_NAMES' 01 'x' 00 'CLIENT' 02 00 '_NAME' 01 'x'")]
    [InlineData("00 00 'MTTS' 01 '-1' 00 'MTTS' 01 '99999999999' 00 'MTTS' 01 '1 ' 00 'CHARSET' 01 'KOI8-R'")]
    [InlineData("00")]
    [InlineData("00 02")]
    [InlineData("01 00 'CLIENT_NAME' 01 'x'")]
    [InlineData("")]
    public void What_was_not_asked_for_has_no_value_or_is_broken_changes_nothing(string body)
    {
        _scene.Read($"FF FB 27 FF FA 27 {body} FF F0");

        Assert.Equal("  Utf8 None ", Known());
        Assert.Null(_scene.Connection.RemoteEndPoint);
        Assert.Null(_scene.Failure);
    }

    [Fact]
    public void A_client_that_has_no_such_variable_is_asked_once_more_for_its_users()
    {
        _scene.Read("FF FB 27 FF FA 27 00 00 'CLIENT_NAME' 00 'MTTS' FF F0");
        _scene.Read("FF FA 27 00 03 'CLIENT_NAME' 01 'MUDLET' FF F0 FF FA 27 00 FF F0 FF FA 27 02 FF F0");

        Assert.Equal("MUDLET", _scene.Terminal.ClientName);
        Assert.Equal(Bytes($"FF FD 27 {Ask} {Ask.Replace("00 '", "03 '", StringComparison.Ordinal)}"), _scene.Sent);
    }

    [Fact]
    public void Capabilities_of_MNES_are_kept_beside_those_of_MTTS()
    {
        _scene.Read("FF FB 27 FF FB 18 FF FA 18 00 'A' FF F0 FF FA 27 00 00 'MTTS' 01 '783' FF F0 FF FA 18 00 'B' FF F0 FF FA 18 00 'MTTS 271' FF F0");

        Assert.Equal((TerminalCapabilities)783, _scene.Terminal.Capabilities);
    }

    [Fact]
    public void What_was_not_agreed_on_is_not_heard()
    {
        var scene = new TelnetScene(new TelnetOptions { Supported = TelnetFeatures.All & ~TelnetFeatures.Environment, Offered = TelnetFeatures.Environment });

        scene.Read("FF FA 27 00 00 'CLIENT_NAME' 01 'x' FF F0 FF FB 27 FF FA 27 00 00 'CLIENT_NAME' 01 'x' FF F0");

        Assert.Equal(Bytes("FF FE 27"), scene.Sent);
        Assert.Null(scene.Terminal.ClientName);
    }

    [Fact]
    public void An_escape_takes_the_next_byte_as_it_is_and_a_value_is_printable_and_short()
    {
        _scene.Read($"FF FB 27 FF FA 27 00 00 'CLIENT_NAME' 01 'a' 02 00 'b' 02 02 1B '[2J' C2 9B FF FF 'é ' 02 'c' 00 'CLIENT_VERSION' 01 '{new string('9', 6000)}' 02 FF F0");

        Assert.Equal("ab[2Jc", _scene.Terminal.ClientName);
        Assert.Equal(new string('9', 40), _scene.Terminal.ClientVersion);
    }

    [Fact]
    public void Only_so_many_variables_of_a_message_are_read()
    {
        var before = string.Concat(Enumerable.Repeat("00 'A' 01 'b' ", 31));

        _scene.Read($"FF FB 27 FF FA 27 00 {before} 00 'CLIENT_NAME' 01 'read' FF F0 FF FA 27 00 {before} 00 'A' 01 'b' 00 'CLIENT_NAME' 01 'not read' FF F0");

        Assert.Equal("read", _scene.Terminal.ClientName);
    }

    [Theory]
    [InlineData("FF FB 2A FF FA 2A 01 ';ISO-8859-1' FF F0", TelnetCharset.Latin1)]
    [InlineData("FF FB 2A FF FA 2A 01 ';KOI8-R' FF F0", TelnetCharset.Ascii)]
    public void A_charset_that_both_sides_agreed_on_counts_more(string negotiation, TelnetCharset charset)
    {
        _scene.Read($"FF FB 27 {negotiation} FF FA 27 00 00 'CHARSET' 01 'ASCII' FF F0");

        Assert.Equal(charset, _scene.Terminal.Charset);
    }

    [Fact]
    public void A_server_without_charsets_hears_of_none()
    {
        var scene = new TelnetScene(new TelnetOptions { Supported = TelnetFeatures.Environment });

        scene.Read("FF FB 27 FF FA 27 00 00 'CHARSET' 01 'ASCII' FF F0");

        Assert.Equal(TelnetCharset.Utf8, scene.Terminal.Charset);
    }

    [Fact]
    public void Any_bytes_are_read_as_variables_without_an_exception()
    {
        var random = new Random(20_261_127);
        for (var input = 0; input < 100_000; input++)
        {
            var body = new byte[random.Next(60)];
            for (var place = 0; place < body.Length; place++)
                body[place] = random.Next(2) == 0 ? (byte)random.Next(5) : (byte)random.Next(256);
            var terminal = new TelnetTerminal();

            new ClientVariables(terminal).Receive([.. body, .. Encoding.ASCII.GetBytes("\0CLIENT_NAME\u0001"), .. body], new TelnetAnswers(_scene.Connection));

            Assert.True(terminal.ClientName is null || terminal.ClientName.All(letter => letter is > ' ' and < '\u007F'));
        }
    }

    private string Known()
    {
        var terminal = _scene.Terminal;
        return $"{terminal.ClientName} {terminal.ClientVersion} {terminal.Charset} {terminal.Capabilities} {terminal.Type}";
    }
}
