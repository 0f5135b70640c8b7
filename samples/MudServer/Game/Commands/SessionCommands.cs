using MudServer.Softcode;

namespace MudServer.Game.Commands;

/// <summary>Commands about the connection: who is connected, settings, help, leaving.</summary>
internal sealed class SessionCommands(WhoList whoList, Comparison comparison, Func<CommandTable> commands)
{
    private const int LineCharacters = 76;

    public IReadOnlyList<Command> All =>
    [
        new("who", "who", "See who is connected.", WhoAsync),
        new("compare", "compare", "Send 1000 lines one by one, then in one scope.", CompareAsync)
        {
            Examples = ["It sends them to a group without members, and shows how long both ways took."],
        },
        new("timing", "timing on|off", "After each command, see what it took.",
            call => SwitchAsync(call, "Timing", on => call.Player.Session.IsTimed = on))
        {
            Examples = ["[1000 messages in 1 send, 1.3 ms]: the messages that were written for", "anyone until the command's were sent, the sends in which they left, and the time."],
        },
        new("buffering", "buffering on|off", "Off: each message is sent, and waited for.",
            call => SwitchAsync(call, "Buffering", on => call.Player.Session.IsBuffered = on)),
        new("help", "help [command|functions]", "See this, or more about one command.", HelpAsync) { Aliases = ["?"] },
        new("quit", "quit", "Leave the island.", QuitAsync) { Aliases = ["exit", "logout"] },
    ];

    private ValueTask WhoAsync(CommandCall call)
    {
        call.Evaluation.Budget.SpendOutput(whoList.Characters, whoList.Lines);
        return whoList.WriteAsync(call.Output, call.Player.Session);
    }

    private static ValueTask SwitchAsync(CommandCall call, string what, Action<bool> set)
    {
        var word = call.Argument.ToLowerInvariant();
        if (word is not ("on" or "off"))
            return call.TellAsync($"Like this: {call.Action.Word} on|off");
        set(word == "on");
        return call.TellAsync(GameOutput.ForPage($"{what} is {word}."));
    }

    private static async ValueTask QuitAsync(CommandCall call)
    {
        var player = call.Player;
        await call.TellAsync("The ferry takes you aboard. Come again.");
        await call.TellOthersAsync($"{player.Name} leaves with the ferry.");
        await call.Output.ControlAsync(player.Session, ControlMessage.Close);
        player.Session.Player = null;
    }

    private ValueTask CompareAsync(CommandCall call)
    {
        call.Output.RunAfterwards(comparison.RunAsync);
        return default;
    }

    private ValueTask HelpAsync(CommandCall call)
    {
        var topic = call.Argument;
        if (topic.Length == 0)
            return HelpWithCommandsAsync(call);
        if (topic.StartsWith("func", StringComparison.OrdinalIgnoreCase))
            return HelpWithFunctionsAsync(call);
        return commands().TryGet(topic, out var command)
            ? HelpWithCommandAsync(call, command)
            : call.TellAsync($"There is no command \"{topic}\". Type \"help\" for all of them.");
    }

    private static async ValueTask HelpWithCommandAsync(CommandCall call, Command command)
    {
        await call.TellAsync($"  {command.Usage}");
        await call.TellAsync($"  {command.Summary}");
        if (command.Aliases.Count > 0)
            await call.TellAsync($"  Also: {string.Join(", ", command.Aliases)}");
        foreach (var example in command.Examples)
            await call.TellAsync($"  {example}");
    }

    private async ValueTask HelpWithCommandsAsync(CommandCall call)
    {
        foreach (var command in commands().Commands)
            await call.TellAsync($"  {command.Usage,-27} {command.Summary}");
        await call.TellAsync(string.Empty);
        await call.TellAsync("In any text %# is your number, %n your name, %r a new line, %% a percent sign,");
        await call.TellAsync("and [..] holds a function: see \"help functions\". Several commands go in {a;b}.");
        await call.TellAsync("Loops nest: ## or %i0 is the innermost word, %i1 that of the next one. Try:");
        await call.TellAsync("  compare");
        await call.TellAsync("  timing on");
        await call.TellAsync("  @dolist lnum(1000)=@pemit %#=%i0");
        await call.TellAsync("  @dolist lnum(10)={@dolist lnum(100)=@pemit %#=%i1 times %i0 is [mul(%i1,%i0)]}");
        await call.TellAsync("  think iter(lnum(1,5),[repeat(*,##)],,%r)");
    }

    private static async ValueTask HelpWithFunctionsAsync(CommandCall call)
    {
        var line = string.Empty;
        foreach (var usage in FunctionTable.Standard.Functions.Select(function => function.Usage).Order(StringComparer.Ordinal))
        {
            if (line.Length + usage.Length > LineCharacters)
            {
                await call.TellAsync(line);
                line = string.Empty;
            }

            line += "  " + usage;
        }

        await call.TellAsync(line);
        await call.TellAsync(string.Empty);
        await call.TellAsync("A function works in [..] anywhere, and bare at the start of a text or of an");
        await call.TellAsync("argument: think add(1,mul(2,3))");
    }
}
