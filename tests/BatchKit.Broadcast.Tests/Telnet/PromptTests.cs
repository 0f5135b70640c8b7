using System.Text;
using BatchKit.Broadcast.Connections;
using BatchKit.Broadcast.Telnet;
using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;
using BatchKit.Transports;

namespace BatchKit.Broadcast.Tests.Telnet;

public sealed class PromptTests : IAsyncDisposable
{
    private readonly BroadcastTransport _transport = new();
    private readonly TelnetScene _scene = new(new TelnetOptions { Offered = TelnetFeatures.None, SendsGoAhead = false, RepeatsPrompt = true });

    public PromptTests() => _transport.Connections.Add(_scene.Connection);

    private string Shown => Encoding.UTF8.GetString(_scene.Sent);

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Fact]
    public async Task A_line_that_comes_while_the_prompt_shows_starts_below_it_and_the_prompt_follows()
    {
        await SendAsync(Line("Welcome."), Prompt("> "));
        await SendAsync(Line("Ann waves."));

        Assert.Equal("Welcome.\r\n> \r\nAnn waves.\r\n> ", Shown);
    }

    [Fact]
    public async Task Lines_of_one_send_bring_the_prompt_back_once()
    {
        _transport.Groups.Join(_scene.Connection, "hall");
        await SendAsync(Prompt("> "));

        await _transport.SendAsync(
            Deliveries.ToGroup("hall", Line("one"), Line("two")), Deliveries.To(_scene.Connection.Handle, Line("three")), Deliveries.ToGroup("hall", Line("four")));

        Assert.Equal("> \r\none\r\ntwo\r\nthree\r\nfour\r\n> ", Shown);
    }

    [Fact]
    public async Task While_an_answer_is_on_its_way_the_prompt_waits_for_it()
    {
        await SendAsync(Prompt("> "));
        _scene.Read("'look' 0D 0A");

        await SendAsync(Line("Ann waves."));
        await SendAsync(Line("A hall."), Prompt("> "));
        await SendAsync(Line("Ann leaves."));

        Assert.Equal("> Ann waves.\r\nA hall.\r\n> \r\nAnn leaves.\r\n> ", Shown);
    }

    [Fact]
    public async Task Each_line_of_the_user_is_answered_before_the_prompt_is_repeated()
    {
        await SendAsync(Prompt("> "));
        _scene.Read($"'look' 0A '{new string('x', 2000)}' 0A");

        await SendAsync(Line("A hall."), Prompt("> "));
        await SendAsync(Line("Ann waves."));
        await SendAsync(Line("Too long."), Prompt("> "));
        await SendAsync(Line("Ann leaves."));

        Assert.Equal("> A hall.\r\n> \r\nAnn waves.\r\nToo long.\r\n> \r\nAnn leaves.\r\n> ", Shown);
    }

    [Fact]
    public async Task After_one_prompt_for_two_lines_the_prompt_is_repeated_again()
    {
        _scene.Read("'look' 0D 0A 'who' 0D 0A");
        await SendAsync(Line("A hall."), Line("Ann."), Prompt("> "));
        _scene.Time.Advance(TimeSpan.FromSeconds(5));

        await SendAsync(Line("Ann waves."));

        Assert.Equal("A hall.\r\nAnn.\r\n> \r\nAnn waves.\r\n> ", Shown);
    }

    [Theory]
    [InlineData("'look' 0D 0A", 0.9)]
    [InlineData("'look' 0D 0A", 4)]
    [InlineData("'look' 0D 0A 'who' 0D 0A", 4)]
    public async Task While_the_user_types_on_a_prompt_that_answered_several_lines_is_repeated_again(string typed, double secondsBetween)
    {
        _scene.Read("'look' 0D 0A 'who' 0D 0A");
        await SendAsync(Line("A hall."), Line("Ann."), Prompt("> "));
        for (var round = 0; round < 10; round++)
        {
            _scene.Time.Advance(TimeSpan.FromSeconds(secondsBetween));
            _scene.Read(typed);
            await SendAsync(Line("A hall."), Prompt("> "));
        }

        _scene.Time.Advance(TimeSpan.FromSeconds(1));
        await SendAsync(Line("Ann waves."));

        Assert.EndsWith("> \r\nAnn waves.\r\n> ", Shown, StringComparison.Ordinal);
    }

    [Fact]
    public async Task After_a_line_that_no_prompt_answers_the_prompt_is_repeated_again()
    {
        await SendAsync(Prompt("> "));
        _scene.Read("'say hello' 0D 0A");
        await SendAsync(Line("You say hello."));
        _scene.Time.Advance(TimeSpan.FromSeconds(5));

        await SendAsync(Line("Ann waves."));

        Assert.Equal("> You say hello.\r\nAnn waves.\r\n> ", Shown);
    }

    [Fact]
    public async Task A_prompt_behind_a_prompt_starts_on_a_new_line_and_is_the_one_that_is_repeated()
    {
        await SendAsync(Prompt("Name: "), Prompt("Password: "));
        await SendAsync(Line("Hurry."));

        Assert.Equal("Name: \r\nPassword: \r\nHurry.\r\nPassword: ", Shown);
    }

    [Fact]
    public async Task What_does_not_show_moves_no_prompt()
    {
        _scene.Read("FF FD C9");
        await SendAsync(Prompt("> "));

        await SendAsync(Some.Message("Room {}", TelnetMessages.Gmcp));
        await SendAsync(Deliveries.Excluding("Ann waves.\r\n", _scene.Connection.Handle));

        Assert.Equal(TelnetScene.Bytes("FF FB C9 '> ' FF FA C9 'Room {}' FF F0"), _scene.Sent);
    }

    [Fact]
    public async Task A_newer_value_that_does_not_show_takes_the_place_of_the_older_one_beside_the_prompt()
    {
        await using var output = new OutputBuffer(_transport);
        _scene.Read("FF FD C9");
        await SendAsync(Prompt("> "));
        _scene.Wire.Limit(0);

        for (var room = 10; room < 100; room++)
        {
            output.WriteLatest(_scene.Connection.Handle, key: 1, $"Room {room}", TelnetMessages.Gmcp);
            await output.FlushAsync(_scene.Connection.Handle).WithinDeadline();
        }

        // The first is under way.
        _scene.Wire.Open();
        await Until.TrueAsync(() => _scene.Queue.HeldBytes == 0);
        Assert.Equal(TelnetScene.Bytes("FF FB C9 '> ' FF FA C9 'Room 10' FF F0 FF FA C9 'Room 99' FF F0"), _scene.Sent);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(4088)]
    public async Task A_prompt_that_is_repeated_behind_a_value_that_does_not_show_is_counted_with_it(int padding)
    {
        await using var output = new OutputBuffer(_transport);
        var (pad, handle) = (new string('.', padding), _scene.Connection.Handle);
        _scene.Read("FF FD C9");
        await SendAsync(Prompt("> "));
        _scene.Read("'look' 0D 0A");
        _scene.Wire.Limit(0);

        for (var room = 10; room < 20; room++)
        {
            // No prompt has answered the line, so the value after the limit brings it back.
            if (room == 12)
                _scene.Time.Advance(TimeSpan.FromSeconds(5));
            output.WriteLatest(handle, key: 1, $"{room}{pad}", TelnetMessages.Gmcp);
            await output.FlushAsync(handle).WithinDeadline();
            Assert.Equal(_transport.Counters.Attempted, Found());
        }

        // The first is under way. The second stays: the value that takes the prompt along replaces none.
        _scene.Wire.Open();
        await Until.TrueAsync(() => _scene.Queue.HeldBytes == 0);
        Assert.Equal(TelnetScene.Bytes($"FF FB C9 '> ' FF FA C9 '10{pad}' FF F0 FF FA C9 '11{pad}' FF F0 FF FA C9 '19{pad}' FF F0 '> '"), _scene.Sent);
        Assert.Equal(_transport.Counters.Attempted, Found());
    }

    [Fact]
    public async Task A_repeated_prompt_ends_as_was_agreed()
    {
        _scene.Read("FF FD 19");
        await SendAsync(Prompt("> "));

        await SendAsync(Line("Ann waves."));

        Assert.Equal(TelnetScene.Bytes("FF FB 19 '> ' FF EF 0D 0A 'Ann waves.' 0D 0A '> ' FF EF"), _scene.Sent);
    }

    [Fact]
    public async Task Without_the_option_prompts_are_left_alone()
    {
        var scene = new TelnetScene();
        _transport.Connections.Add(scene.Connection);

        await _transport.SendAsync(Deliveries.To(scene.Connection.Handle, Prompt("> ")));
        await _transport.SendAsync(Deliveries.To(scene.Connection.Handle, Line("Ann waves.")));

        Assert.Equal(TelnetScene.Bytes("'> ' FF F9 'Ann waves.' 0D 0A"), scene.Sent);
    }

    [Fact]
    public async Task A_line_larger_than_a_write_starts_on_a_new_line_too()
    {
        var text = new string('x', 100_000);
        await SendAsync(Prompt("> "));

        await SendAsync(Line(text));
        await SendAsync(Line("Ann waves."));

        Assert.Equal($"> \r\n{text}\r\nAnn waves.\r\n> ", Shown);
    }

    [Fact]
    public async Task What_is_added_is_counted_with_its_message()
    {
        await SendAsync(Prompt("> "));
        await SendAsync(Line("Ann waves."), Line("Bob nods."));

        var counted = _transport.GetStatistics();

        counted.AssertAddsUp();
        Assert.Equal((3, Shown.Length), (counted.SentMessages, counted.SentBytes));
    }

    // What is written later is counted by the scene.
    private Amount Found() =>
        Enum.GetValues<DeliveryOutcome>().Aggregate(_scene.Queue.Waiting, (sum, outcome) => sum + _transport.Counters[outcome] + _scene.Counters[outcome]);

    private static BatchMessage Line(string text) => Some.Message($"{text}\r\n");

    private static BatchMessage Prompt(string text) => Some.Message(text, new MessageHeader { Kind = MessageKind.Prompt });

    private Task SendAsync(params BatchMessage[] messages) => _transport.SendAsync(Deliveries.To(_scene.Connection.Handle, messages));
}
