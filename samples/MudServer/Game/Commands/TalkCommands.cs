namespace MudServer.Game.Commands;

/// <summary>Commands that say something to someone.</summary>
internal sealed class TalkCommands(World world)
{
    public IReadOnlyList<Command> All =>
    [
        new("say", "say <text>, or \"<text>", "Say something to everyone in the room.", SayAsync) { Aliases = ["\""] },
        new("pose", "pose <text>, or :<text>", "\":waves.\" shows \"Ana waves.\"", call => PoseAsync(call, " ")) { Aliases = [":", "emote"] },
        new("semipose", "semipose <text>, or ;<text>", "The same without a space: \";'s hat falls.\"", call => PoseAsync(call, string.Empty))
        {
            Aliases = [";"],
        },
        new("think", "think <text>", "Show it to yourself: try \"think add(1,2)\".", call => call.TellAsync(call.Argument)),
        new("@pemit", "@pemit <player>=<text>", "Show it to a player: name, #number or me.", PemitAsync) { Aliases = ["@pe"] },
        new("@emit", "@emit <text>", "Show it to everyone in the room.", EmitAsync) { Aliases = ["\\"] },
    ];

    private static ValueTask SayAsync(CommandCall call)
    {
        var text = call.Argument;
        return text.Length == 0
            ? call.TellAsync("What do you want to say?")
            : call.TellRoomAsync($"You say, \"{text}\"", $"{call.Player.Name} says, \"{text}\"");
    }

    private static ValueTask PoseAsync(CommandCall call, string space)
    {
        var text = call.Argument;
        if (text.Length == 0)
            return call.TellAsync("What do you want to do?");
        var line = call.Player.Name + space + text;
        return call.TellRoomAsync(line, line);
    }

    private static ValueTask EmitAsync(CommandCall call)
    {
        var text = call.Argument;
        return call.TellRoomAsync(text, text);
    }

    private ValueTask PemitAsync(CommandCall call)
    {
        if (!call.Action.HasEquals)
            return call.TellAsync("Like this: @pemit <player>=<text>");
        var target = call.Left;
        return world.TryFindPlayer(call.Player.Id, target, out var player)
            ? call.TellAsync(player, call.Right)
            : call.TellAsync($"No one here is called \"{target}\".");
    }
}
