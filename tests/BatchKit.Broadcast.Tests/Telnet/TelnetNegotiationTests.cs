using BatchKit.Broadcast.Telnet;
using static BatchKit.Broadcast.Tests.Telnet.TelnetScene;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class TelnetNegotiationTests
{
    [Fact]
    public void The_server_opens_with_its_offers_and_never_offers_to_echo()
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = TelnetFeatures.All });

        Assert.Equal(Bytes("FF FD 18 FF FD 1F FF FD 27 FF FB 03 FF FB 19 FF FB 2A FF FB C9 FF FB 56 FF FB 57"), scene.Sent);
    }

    [Fact]
    public void Suppressing_go_ahead_is_not_offered_unless_asked_for() =>
        Assert.Equal(Bytes("FF FD 18 FF FD 1F FF FD 27 FF FB 19 FF FB 2A FF FB C9 FF FB 56 FF FB 57"), new TelnetScene(new TelnetOptions()).Sent);

    [Fact]
    public void A_server_that_offers_nothing_sends_nothing() => Assert.Empty(new TelnetScene().Sent);

    [Fact]
    public void What_is_not_supported_is_neither_offered_nor_agreed_to()
    {
        var scene = new TelnetScene(new TelnetOptions { Supported = TelnetFeatures.WindowSize, Offered = TelnetFeatures.All });

        scene.Read("FF FD C9 FF FD 56 FF FB 18");

        Assert.Equal(Bytes("FF FD 1F FF FC C9 FF FC 56 FF FE 18"), scene.Sent);
        Assert.False(scene.Terminal.TakesGmcp);
    }

    [Theory]
    [InlineData("FF FD 19", "FF FB 19")]
    [InlineData("FF FB 1F", "FF FD 1F")]
    [InlineData("FF FD 01", "FF FC 01")]
    [InlineData("FF FB 22", "FF FE 22")]
    [InlineData("FF FC 22 FF FE 01", "")]
    [InlineData("FF FD 57 FF FE 57", "FF FB 57 FF FC 57")]
    [InlineData("FF FD 19 FF FD 19 FF FD 19", "FF FB 19")]
    [InlineData("FF FD 19 FF FE 19 FF FE 19", "FF FB 19 FF FC 19")]
    [InlineData("FF FB 1F FF FC 1F FF FB 1F", "FF FD 1F FF FE 1F FF FD 1F")]
    public void A_request_is_answered_once_and_what_is_so_already_is_not(string requests, string answers)
    {
        var scene = new TelnetScene();

        scene.Read(requests);

        Assert.Equal(Bytes(answers), scene.Sent);
    }

    [Theory]
    [InlineData("FF FD 19")]
    [InlineData("FF FE 19")]
    public void An_answer_to_an_offer_is_not_answered(string answer)
    {
        var scene = new TelnetScene(new TelnetOptions { Offered = TelnetFeatures.EndOfRecord });

        scene.Read(answer);

        Assert.Equal(Bytes("FF FB 19"), scene.Sent);
    }

    [Fact]
    public void Two_servers_that_talk_to_each_other_fall_silent()
    {
        var (left, right) = (new TelnetScene(new TelnetOptions()), new TelnetScene(new TelnetOptions()));
        var (leftRead, rightRead) = (0, 0);

        while (leftRead < right.Sent.Length || rightRead < left.Sent.Length)
        {
            var toLeft = right.Sent[leftRead..];
            leftRead += toLeft.Length;
            left.Read(toLeft);
            var toRight = left.Sent[rightRead..];
            rightRead += toRight.Length;
            right.Read(toRight);
            Assert.InRange(left.Sent.Length + right.Sent.Length, 1, 500);
        }

        Assert.Null(left.Failure);
        Assert.Null(right.Failure);
    }

    [Fact]
    public void A_flood_of_requests_ends_the_connection_before_it_is_answered_without_end()
    {
        var scene = new TelnetScene();
        var flood = Enumerable.Range(0, 100_000).SelectMany(number => new byte[] { 255, 253, (byte)(number % 100) }).ToArray();

        scene.Read(flood);

        Assert.Equal("more than 1024 requests in negotiation", scene.Failure);
        Assert.InRange(scene.Sent.Length, 3, 1024 * 3);
    }

    [Fact]
    public void Somebody_who_asks_whether_the_server_is_there_gets_a_line_and_another_after_a_second()
    {
        var scene = new TelnetScene();
        var line = "\r\n[Yes, the server is here.]\r\n"u8.ToArray();

        scene.Read("FF F6 FF F6 FF F6");
        Assert.Equal(line, scene.Sent);
        scene.Time.Advance(TimeSpan.FromSeconds(1));
        scene.Read("FF F6 FF F6");

        Assert.Equal([.. line, .. line], scene.Sent);
        Assert.Null(scene.Failure);
    }

    [Fact]
    public void The_window_and_the_terminal_are_known_once_they_are_told()
    {
        var scene = new TelnetScene();

        scene.Read("FF FB 1F FF FA 1F 00 78 FF F0");
        Assert.Equal((0, 0), (scene.Terminal.Width, scene.Terminal.Height));
        scene.Read("FF FA 1F 00 FF FF 00 28 FF F0 FF FB 18 FF FA 18 00 1B 'xterm-256color" + new string('x', 60) + "' FF F0");

        Assert.Equal((255, 40), (scene.Terminal.Width, scene.Terminal.Height));
        Assert.Equal("xterm-256color" + new string('x', 26), scene.Terminal.Type);
        Assert.Equal(Bytes("FF FD 1F FF FD 18 FF FA 18 01 FF F0 FF FA 18 01 FF F0"), scene.Sent);
    }

    [Fact]
    public void What_was_not_agreed_on_is_not_heard()
    {
        var scene = new TelnetScene();

        var records = scene.Read("FF FA 1F 00 50 00 18 FF F0 FF FA 18 00 'xterm' FF F0 FF FA 2A 01 ';UTF-8' FF F0 FF FA C9 'Core.Hello {}' FF F0 FF FA FF F0 0A");

        Assert.Equal([(RecordKind.Data, "")], records);
        Assert.Equal((0, null), (scene.Terminal.Width, scene.Terminal.Type));
        Assert.Empty(scene.Sent);
    }

    [Fact]
    public void GMCP_comes_in_order_with_the_lines()
    {
        var scene = new TelnetScene();

        var records = scene.Read("'look' 0A FF FD C9 'wh' FF FA C9 'Core.Hello {\"a\":\"é' E9 FF FF '\"}' FF F0 'o' 0A");

        Assert.Equal([(RecordKind.Data, "look"), (RecordKind.Gmcp, "Core.Hello {\"a\":\"é\uFFFD\uFFFD\"}"), (RecordKind.Data, "who")], records);
        Assert.True(scene.Terminal.TakesGmcp);
    }

    [Theory]
    [InlineData("""{"a":"\u001b[2J\u0007\u009b\u202e\u3164b"}""", """{"a":"[2Jb"}""")]
    [InlineData("""{"a":"1\r\n2\t3\f4\b5\u000a6\u20287"}""", """{"a":"1  2 3 45 6 7"}""")]
    [InlineData("""{"a":"\"\\/\/\u00e9\ud83d\ude00 \\u001b"}""", """{"a":"\"\\/\/\u00e9\ud83d\ude00 \\u001b"}""")]
    [InlineData("""{"a":"\ud83d\u0041\ude00"}""", "{\"a\":\"\uFFFD\\u0041\uFFFD\"}")]
    [InlineData("""{"a":"\u00\u00071b\x\"}""", """{"a":" u001b x\"}""")]
    [InlineData("""{"a":"\ud80d\udc41b"}""", """{"a":"b"}""")]
    [InlineData("a\u001b\tb\r\n\\", "a b  ")]
    public void The_strings_of_GMCP_are_clean_after_their_decoding(string sent, string expected)
    {
        var scene = new TelnetScene();

        var records = scene.Read([0xFF, 0xFD, 0xC9, 0xFF, 0xFA, 0xC9, .. Bytes($"'{sent}'"), 0xFF, 0xF0]);

        Assert.Equal([(RecordKind.Gmcp, expected)], records);
    }

    [Theory]
    [InlineData(8 * 1024, null)]
    [InlineData((8 * 1024) + 1, "a subnegotiation above 8192 bytes")]
    public void A_subnegotiation_has_a_limit(int bytes, string? failure)
    {
        var scene = new TelnetScene();

        scene.Read($"FF FA 1F '{new string('x', bytes)}'");

        Assert.Equal(failure, scene.Failure);
    }

    [Fact]
    public void A_command_inside_a_subnegotiation_ends_it_and_is_obeyed()
    {
        var scene = new TelnetScene();

        var records = scene.Read("FF FB 1F FF FA 1F 00 50 FF FD 19 'look' 0A");

        Assert.Equal([(RecordKind.Data, "look")], records);
        Assert.Equal(0, scene.Terminal.Width);
        Assert.Equal(Bytes("FF FD 1F FF FB 19"), scene.Sent);
    }
}
