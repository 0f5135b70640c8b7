using BatchKit.Broadcast.Telnet;
using static BatchKit.Broadcast.Tests.Telnet.TelnetScene;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class TerminalTypeTests
{
    private const string Ask = "FF FA 18 01 FF F0";

    private readonly TelnetScene _scene = new();

    [Fact]
    public void A_MUD_client_is_asked_for_its_name_its_terminal_and_its_capabilities()
    {
        _scene.Read($"FF FB 18 {Name("TINTIN++")}");
        Assert.Equal((null, "TINTIN++"), (_scene.Terminal.ClientName, _scene.Terminal.Type));
        _scene.Read(Name("xterm-256color"));
        Assert.Equal((null, "TINTIN++"), (_scene.Terminal.ClientName, _scene.Terminal.Type));
        _scene.Read(Name("MTTS 2829"));

        Assert.Equal(("TINTIN++", "xterm-256color"), (_scene.Terminal.ClientName, _scene.Terminal.Type));
        Assert.Equal(
            TerminalCapabilities.Ansi | TerminalCapabilities.Utf8 | TerminalCapabilities.Colors256 | TerminalCapabilities.TrueColor | TerminalCapabilities.Mnes | TerminalCapabilities.Ssl,
            _scene.Terminal.Capabilities);
        Assert.Equal(Bytes($"FF FD 18 {Ask} {Ask} {Ask}"), _scene.Sent);
    }

    [Theory]
    [InlineData("xterm", "XTERM", 2)]
    [InlineData("xterm", "", 2)]
    [InlineData("", "xterm", 1)]
    public void A_client_that_repeats_its_name_or_has_none_is_asked_no_more(string first, string second, int asked)
    {
        _scene.Read($"FF FB 18 {Name(first)} {Name(second)} {Name("MTTS 1")}");

        Assert.Equal(Bytes($"FF FD 18 {string.Join(' ', Enumerable.Repeat(Ask, asked))}"), _scene.Sent);
        Assert.Equal((first.Length > 0 ? first : null, null, TerminalCapabilities.None), (_scene.Terminal.Type, _scene.Terminal.ClientName, _scene.Terminal.Capabilities));
    }

    [Fact]
    public void A_client_that_never_repeats_a_name_is_asked_three_times_and_its_first_name_is_its_type()
    {
        _scene.Read("FF FB 18");
        for (var name = 0; name < 1000; name++)
            _scene.Read(Name($"type{name}"));

        Assert.Equal(Bytes($"FF FD 18 {Ask} {Ask} {Ask}"), _scene.Sent);
        Assert.Equal(("type0", null), (_scene.Terminal.Type, _scene.Terminal.ClientName));
    }

    [Theory]
    [InlineData("MTTS 4294967295", 4095)]
    [InlineData("MTTS 4096", 0)]
    [InlineData("MTTS 0000137", 137)]
    [InlineData("MTTS 4294967296", 0)]
    [InlineData("MTTS 99999999999999999999999999", 0)]
    [InlineData("MTTS -1", 0)]
    [InlineData("MTTS +1", 0)]
    [InlineData("MTTS 1 ", 0)]
    [InlineData("MTTS 1\u001b[2J", 0)]
    [InlineData("MTTS 0x1", 0)]
    [InlineData("MTTS 1.5", 0)]
    [InlineData("MTTS ", 0)]
    [InlineData("MTTS", 0)]
    [InlineData("mtts 1", 0)]
    public void Capabilities_are_known_bits_of_a_plain_number(string sent, int capabilities)
    {
        _scene.Read($"FF FB 18 {Name("Client")} {Name("ansi")} {Name(sent)} {Name("MTTS 1")}");

        Assert.Equal((TerminalCapabilities)capabilities, _scene.Terminal.Capabilities);
    }

    [Fact]
    public void Names_are_printable_ASCII_of_at_most_forty_bytes()
    {
        var hostile = $"a\u001b[2J\u0007é\u202e b{new string('x', 7000)}";

        _scene.Read($"FF FB 18 {Name(hostile)} {Name("z" + hostile)} {Name("MTTS 1")}");

        Assert.Equal(("a[2Jb" + new string('x', 35), "za[2Jb" + new string('x', 34)), (_scene.Terminal.ClientName, _scene.Terminal.Type));
    }

    [Fact]
    public void A_name_that_was_not_asked_for_changes_nothing()
    {
        _scene.Read($"FF FB 18 FF FA 18 FF F0 FF FA 18 01 'ask' FF F0 {Name("xterm")} {Name("xterm")} {Name("vt100")} {Name("MTTS 1")} FF FC 18 {Name("dumb")}");

        Assert.Equal(("xterm", TerminalCapabilities.None), (_scene.Terminal.Type, _scene.Terminal.Capabilities));
    }

    [Fact]
    public void A_client_that_agrees_again_is_asked_again_within_the_limit_on_answers()
    {
        _scene.Read($"FF FB 18 {Name("one")} {Name("ansi")} {Name("MTTS 1")} FF FC 18 FF FB 18 {Name("two")} {Name("vt100")} {Name("MTTS 2")}");
        Assert.Equal(("two", "vt100", TerminalCapabilities.Vt100), (_scene.Terminal.ClientName, _scene.Terminal.Type, _scene.Terminal.Capabilities));

        _scene.Read(string.Join(' ', Enumerable.Repeat($"FF FC 18 FF FB 18 {Name("a")}", 1000)));

        Assert.Equal("more than 1024 requests in negotiation", _scene.Failure);
    }

    private static string Name(string name) => $"FF FA 18 00 '{name}' FF F0";
}
