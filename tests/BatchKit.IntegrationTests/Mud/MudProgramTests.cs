using System.Text.RegularExpressions;
using BatchKit.TestServers.Mud;

namespace BatchKit.IntegrationTests.Mud;

/// <summary>The programs that people play with, each in a pseudo-terminal.</summary>
[Trait("Lane", "slow: programs are started")]
public sealed partial class MudProgramTests
{
    [Theory]
    [InlineData("telnet", "telnet", "{0} {1}")]
    [InlineData("tt++", "tintin++", "-e '#session mud {0} {1}'")]
    public async Task A_real_client_plays(string program, string package, string arguments)
    {
        RequiredServer.SkipWhen(TerminalProgram.WhyMissing(program, package));
        using var mud = await MudProcess.StartAsync("--port", "0");
        using var terminal = TerminalProgram.Start(program, string.Format(arguments, mud.Telnet.Address, mud.Telnet.Port));
        await terminal.ReadPastAsync("or \"quit\".\r\n> ");

        await terminal.TypeAsync("connect Ana");
        var arrival = await terminal.ReadPastAsync("Exits: north\r\n> ");
        await terminal.TypeAsync("@dolist lnum(1000)=@pemit %#=line %i0");
        var lines = await terminal.ReadPastAsync("line 999\r\n> ");
        await terminal.TypeAsync("quit");
        await terminal.ReadPastAsync("Come again.\r\n");

        Assert.Contains("The Jetty (#0)\r\n", arrival, StringComparison.Ordinal);
        Assert.Equal(Enumerable.Range(0, 999).Select(number => $"{number}"), Line.Matches(lines).Select(line => line.Groups["number"].Value));
    }

    [Theory]
    [InlineData("telnet", "telnet", "{0} {1}")]
    [InlineData("tt++", "tintin++", "-e '#session mud {0} {1}'")]
    public async Task A_real_client_does_not_show_a_password(string program, string package, string arguments)
    {
        RequiredServer.SkipWhen(TerminalProgram.WhyMissing(program, package));
        using var mud = await MudProcess.StartAsync("--port", "0");
        using var terminal = TerminalProgram.Start(program, string.Format(arguments, mud.Telnet.Address, mud.Telnet.Port));
        await terminal.ReadPastAsync("or \"quit\".\r\n> ");

        await terminal.TypeAsync("login Ana");
        await terminal.ReadPastAsync("Password: ");
        await terminal.TypeAsync("lantern-1");
        var typed = await terminal.ReadPastAsync("Exits: north\r\n> ");
        await terminal.TypeAsync("say lantern-2");
        var said = await terminal.ReadPastAsync("You say, \"lantern-2\"");

        Assert.DoesNotContain("lantern-1", typed, StringComparison.Ordinal);
        Assert.Contains("Welcome, Ana.", typed, StringComparison.Ordinal);
        Assert.Contains("say lantern-2", said, StringComparison.Ordinal);
    }

    [GeneratedRegex(@"^line (?<number>\d+)\r$", RegexOptions.Multiline | RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Line { get; }
}
