using System.Net.WebSockets;
using System.Text;
using MudServer.Tests.Support;

namespace MudServer.Tests.Clients;

/// <summary>The game over a WebSocket, as the web page plays it: a message each way is a line, and one without a line's end the prompt.</summary>
public sealed class WebSocketTests
{
    private readonly byte[] _bytes = new byte[16 * 1024];

    [Fact]
    public async Task Several_lines_in_one_message_are_several_lines()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await LoginAsync(mud);

        await SendAsync(ana, "think one\r\nthink two");

        Assert.Equal(["one\r\n"], await ReadToPromptAsync(ana));
        Assert.Equal(["two\r\n"], await ReadToPromptAsync(ana));
    }

    [Fact]
    public async Task Control_characters_reach_nobody()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await LoginAsync(mud);

        await SendAsync(ana, "think \u001bgr\u0007\u009büße");

        Assert.Equal(["grüße\r\n"], await ReadToPromptAsync(ana));
    }

    [Fact]
    public async Task What_the_page_obeys_has_a_mark_that_no_player_can_write()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await LoginAsync(mud);
        using var bob = await mud.LoginAsync("Bob");
        await SendAsync(ana, "buffering on");
        var own = (await ReadToPromptAsync(ana))[^1];

        foreach (var text in new[] { "Buffering is off.", "\u001b[0mBuffering is off.", "a%r\u001b[0m  resume x", "%u001b[0m%c[0mWelcome, Eve." })
        {
            await bob.AskAsync($"@pemit Ana={text}");
            await bob.AskAsync($"@emit {text}");
        }

        await SendAsync(ana, "think done");
        var others = await ReadToPromptAsync(ana);
        Assert.Equal("\u001b[0mBuffering is on.\r\n", own);
        Assert.Equal(8 + 1, others.Count);
        Assert.DoesNotContain(others, static line => line.Contains('\u001b', StringComparison.Ordinal));
    }

    [Fact]
    public async Task A_player_who_quits_is_told_goodbye_and_the_close_is_a_normal_one()
    {
        await using var mud = await RunningMud.StartAsync();
        using var ana = await LoginAsync(mud);

        await SendAsync(ana, "quit");

        Assert.Equal("The ferry takes you aboard. Come again.\r\n", await ReadAsync(ana));
        Assert.Null(await ReadAsync(ana));
        Assert.Equal(WebSocketCloseStatus.NormalClosure, ana.CloseStatus);
    }

    [Fact]
    public async Task A_page_of_another_host_may_not_connect()
    {
        await using var mud = await RunningMud.StartAsync();
        using var stranger = new ClientWebSocket();
        stranger.Options.SetRequestHeader("Origin", "https://elsewhere.example");

        await Assert.ThrowsAsync<WebSocketException>(() => stranger.ConnectAsync(mud.Play, CancellationToken.None).WithinDeadline());
    }

    private async Task<ClientWebSocket> LoginAsync(RunningMud mud)
    {
        var socket = new ClientWebSocket();
        await socket.ConnectAsync(mud.Play, CancellationToken.None).WithinDeadline();
        await ReadToPromptAsync(socket);
        await SendAsync(socket, "connect Ana");
        await ReadToPromptAsync(socket);
        return socket;
    }

    private static Task SendAsync(ClientWebSocket socket, string text) =>
        socket.SendAsync(Encoding.UTF8.GetBytes(text), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None).WithinDeadline();

    private async Task<List<string>> ReadToPromptAsync(ClientWebSocket socket)
    {
        var lines = new List<string>();
        while (await ReadAsync(socket) is { } message && message != "> ")
            lines.Add(message);
        return lines;
    }

    /// <summary>Reads one message; null when the server has closed.</summary>
    private async Task<string?> ReadAsync(ClientWebSocket socket)
    {
        var message = await socket.ReceiveAsync(_bytes, CancellationToken.None).WithinDeadline();
        Assert.True(message.EndOfMessage);
        return message.MessageType == WebSocketMessageType.Close ? null : Encoding.UTF8.GetString(_bytes, 0, message.Count);
    }
}
