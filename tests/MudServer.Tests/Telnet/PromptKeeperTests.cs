using System.Buffers;
using System.Text;
using BatchKit.Transports;
using MudServer.Telnet;

namespace MudServer.Tests.Telnet;

public sealed class PromptKeeperTests
{
    private readonly ArrayBufferWriter<byte> _screen = new();
    private readonly PromptKeeper _keeper = new(sendsGoAhead: false);

    [Fact]
    public void A_line_that_arrives_at_the_prompt_starts_anew_and_brings_the_prompt_back()
    {
        Show(Prompt());
        Show(Line("Bob waves."));

        Assert.Equal("> \r\nBob waves.\r\n> ", Screen());
    }

    [Fact]
    public void While_an_answer_is_on_its_way_the_prompt_waits_for_it()
    {
        Show(Prompt());
        _keeper.NoteLine();
        Show(Line("one"));
        Show(Line("two"));
        Show(Prompt());

        Assert.Equal("> one\r\ntwo\r\n> ", Screen());
    }

    [Fact]
    public void Lines_typed_ahead_are_each_answered_with_a_prompt()
    {
        Show(Prompt());
        _keeper.NoteLine();
        _keeper.NoteLine();
        Show(Line("one"), Prompt());
        Show(Line("two"));
        Show(Line("three"));
        Show(Prompt());

        Assert.Equal("> one\r\n> \r\ntwo\r\nthree\r\n> ", Screen());
    }

    [Fact]
    public void Nothing_is_brought_back_before_the_first_prompt()
    {
        Show(Line("Welcome"));

        Assert.Equal("Welcome\r\n", Screen());
    }

    [Fact]
    public void A_prompt_ends_with_go_ahead()
    {
        var keeper = new PromptKeeper(sendsGoAhead: true);

        keeper.Append(_screen, Prompt());

        Assert.Equal([(byte)'>', (byte)' ', 255, 249], _screen.WrittenSpan.ToArray());
    }

    private static BatchMessage Line(string text) => new(Encoding.UTF8.GetBytes(text + "\r\n"));

    private static BatchMessage Prompt() => new("> "u8.ToArray(), MessageHeader.Prompt);

    private void Show(params BatchMessage[] messages)
    {
        foreach (var message in messages)
            _keeper.Append(_screen, message);
        _keeper.End(_screen);
    }

    private string Screen() => Encoding.UTF8.GetString(_screen.WrittenSpan);
}
