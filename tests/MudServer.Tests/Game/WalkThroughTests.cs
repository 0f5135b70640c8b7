using System.Text.RegularExpressions;
using BatchKit.TestServers.Mud;
using MudServer.Tests.Support;

namespace MudServer.Tests.Game;

/// <summary>The sample's README shows what a player types and what the game answers. This types it.</summary>
public sealed partial class WalkThroughTests
{
    private const string Anything = "..";
    private const string BobArrives = "Bob steps off the ferry.";

    [Fact]
    public async Task The_game_answers_what_the_readme_shows()
    {
        var steps = Read(await File.ReadAllLinesAsync(ReadmePath(), TestContext.Current.CancellationToken));
        await using var mud = await RunningMud.StartAsync();
        using var ana = await mud.ConnectAsync();
        await ana.ReadToPromptAsync();
        TelnetClient? bob = null;

        foreach (var (typed, expected) in steps)
        {
            if (expected.Contains(BobArrives, StringComparer.Ordinal))
                bob = await mud.LoginAsync("Bob");
            var answer = typed.Length == 0 ? await ana.ReadToPromptAsync() : await ana.AskAsync(typed);

            Assert.True(Matches(expected, answer), $"> {typed}\nThe README shows:\n{string.Join('\n', expected)}\nThe game answers:\n{string.Join('\n', answer)}");
        }

        Assert.True(steps.Count > 12);
        Assert.NotNull(bob);
        bob.Dispose();
    }

    // In the README's indented blocks a line that begins with "> " is typed, and the lines below it are the answer.
    private static List<(string Typed, string[] Expected)> Read(string[] readme)
    {
        var steps = new List<(string Typed, List<string> Expected)>();
        var isInside = false;
        foreach (var line in readme.Where(line => line.Length > 0))
        {
            var code = line.StartsWith("    ", StringComparison.Ordinal) ? line[4..] : null;
            if (code is not null && (code == ">" || code.StartsWith("> ", StringComparison.Ordinal)))
                steps.Add((code.Length > 2 ? code[2..] : string.Empty, []));
            else if (code is not null && isInside)
                steps[^1].Expected.Add(code);
            isInside = code is not null && steps.Count > 0 && (isInside || code.StartsWith('>'));
        }

        return [.. steps.Select(step => (step.Typed, step.Expected.ToArray()))];
    }

    private static bool Matches(ReadOnlySpan<string> expected, ReadOnlySpan<string> answer)
    {
        if (expected.IsEmpty)
            return answer.IsEmpty;
        if (expected[0] == Anything)
            return Matches(expected[1..], answer) || (!answer.IsEmpty && Matches(expected, answer[1..]));
        return !answer.IsEmpty && WithoutTimes(expected[0]) == WithoutTimes(answer[0]) && Matches(expected[1..], answer[1..]);
    }

    private static string WithoutTimes(string line) => Time.Replace(line, " some time");

    private static string ReadmePath()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder.FullName, "BatchKit.sln")))
            folder = folder.Parent!;
        return Path.Combine(folder.FullName, "samples", "MudServer", "README.md");
    }

    [GeneratedRegex(@" +(\d+\.\d ms|\d+ times as fast)", RegexOptions.ExplicitCapture, matchTimeoutMilliseconds: 10_000)]
    private static partial Regex Time { get; }
}
