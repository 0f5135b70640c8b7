using System.Net.WebSockets;
using System.Text;
using BatchKit.TestServers.Mud;
using MudServer.Tests.Support;

namespace MudServer.Tests.Clients;

/// <summary>Each hostile character, in a name and in a line: what another player's telnet program gets of it.</summary>
public sealed class SafeTextTests
{
    // IAC GA, which ends a prompt, read as Latin-1.
    private const string GoAhead = "\u00ff\u00f9";

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task A_hostile_character_reaches_no_other_player(bool overWebSocket)
    {
        await using var mud = await RunningMud.StartAsync("--max-connections-per-address", "1000");
        using var victim = await mud.LoginAsync("Victim");
        var received = new StringBuilder();

        for (var index = 0; index < HostileText.All.Count; index++)
        {
            var hostile = HostileText.All[index];
            string[] lines = [$"connect na{hostile}me", $"say a{hostile}{HostileText.Forged}", $"connect done{index}", $"say done{index}"];
            await (overWebSocket ? AttackByWebSocketAsync(mud, lines) : AttackByTelnetAsync(mud, lines));
            received.Append(await victim.ReadPastAsync($"done{index}"));
        }

        HostileText.AssertNoneIn(Encoding.UTF8.GetString(Encoding.Latin1.GetBytes($"{received.Replace(GoAhead, string.Empty)}")));
    }

    [Fact]
    public async Task A_binary_message_is_refused()
    {
        await using var mud = await RunningMud.StartAsync();
        using var socket = new ClientWebSocket();
        await socket.ConnectAsync(mud.Play, CancellationToken.None).WithinDeadline();

        await socket.SendAsync("connect Ana"u8.ToArray(), WebSocketMessageType.Binary, endOfMessage: true, CancellationToken.None);
        while (socket.CloseStatus is null)
            await socket.ReceiveAsync(new byte[16 * 1024], CancellationToken.None).WithinDeadline();

        Assert.Equal(WebSocketCloseStatus.InvalidMessageType, socket.CloseStatus);
    }

    private static async Task AttackByTelnetAsync(RunningMud mud, string[] lines)
    {
        using var attacker = await mud.ConnectAsync();
        foreach (var line in lines)
            await attacker.SendAsync(Encoding.Latin1.GetString(Encoding.UTF8.GetBytes($"{line}\r\n")));
        await attacker.ReadPastAsync("You say, \"done");
    }

    private static async Task AttackByWebSocketAsync(RunningMud mud, string[] lines)
    {
        using var attacker = new ClientWebSocket();
        await attacker.ConnectAsync(mud.Play, CancellationToken.None).WithinDeadline();
        foreach (var line in lines)
            await attacker.SendAsync(Encoding.UTF8.GetBytes(line), WebSocketMessageType.Text, endOfMessage: true, CancellationToken.None).WithinDeadline();
        var (buffer, text) = (new byte[16 * 1024], string.Empty);
        while (!text.Contains("You say, \"done", StringComparison.Ordinal))
            text += Encoding.UTF8.GetString(buffer, 0, (await attacker.ReceiveAsync(buffer, CancellationToken.None).WithinDeadline()).Count);
    }
}
