namespace MudServer.Game.Commands;

/// <summary>Commands that walk about, look at things and take them.</summary>
internal sealed class MoveCommands
{
    public IReadOnlyList<Command> All =>
    [
        new("look", "look [<thing>]", "Look around, or examine something or someone.", LookAsync) { Aliases = ["l", "examine", "ex"] },
        new("go", "go <exit>", "Walk; n, s, e, w, u and d do as well.", call => GoAsync(call, call.Argument)),
        new("get", "get <thing>", "Pick something up.", GetAsync) { Aliases = ["take"] },
        new("drop", "drop <thing>", "Put something down.", DropAsync),
        new("inventory", "inventory", "See what you carry.", InventoryAsync) { Aliases = ["i", "inv"] },
    ];

    public static async ValueTask GoAsync(CommandCall call, string direction)
    {
        var (player, output) = (call.Player, call.Output);
        if (direction.Length == 0 || !player.Room.TryGetExit(direction, out var exit, out var room))
        {
            await call.TellAsync("You can't go that way.");
            return;
        }

        await call.TellOthersAsync($"{player.Name} leaves {exit}.");
        await output.ControlAsync(player.Session, ControlMessage.LeaveGroup(player.Room.Group.Name!));
        World.Move(player, room);
        await output.ControlAsync(player.Session, ControlMessage.JoinGroup(room.Group.Name!));
        await call.TellOthersAsync($"{player.Name} arrives.");
        SpendRoom(call, room);
        await ShowRoomAsync(output, player);
    }

    public static async ValueTask ShowRoomAsync(GameOutput output, Player player)
    {
        var (session, room) = (player.Session, player.Room);
        await output.TellRoomAsync(session, room);
        await output.LineAsync(session, $"{room.Name} (#{room.Id})");
        await output.LinesAsync(session, room.Description);
        if (room.Things.Count > 0)
            await output.LineAsync(session, $"You see {Listed(room.Things.Select(thing => thing.Name))}.");
        if (room.Players.Count > 1)
        {
            var others = room.Players.Where(other => other != player).Select(other => other.Name).ToList();
            await output.LineAsync(session, $"{Listed(others)} {(others.Count == 1 ? "is" : "are")} here.");
        }

        await output.LineAsync(session, $"Exits: {string.Join(", ", room.Exits.Select(exit => exit.Key))}");
    }

    // Some ten lines, and the names of all players in the room.
    private static void SpendRoom(CommandCall call, Room room)
    {
        call.Evaluation.Budget.SpendOutput(room.Description.Length);
        call.Evaluation.Budget.Work(100 + (5L * room.Players.Count));
    }

    private static ValueTask LookAsync(CommandCall call)
    {
        var word = call.Argument;
        if (word.StartsWith("at ", StringComparison.OrdinalIgnoreCase))
            word = word[3..].TrimStart();
        if (word.Length == 0 || word.Equals("here", StringComparison.OrdinalIgnoreCase))
        {
            SpendRoom(call, call.Player.Room);
            return ShowRoomAsync(call.Output, call.Player);
        }

        var thing = call.Player.Things.Concat(call.Player.Room.Things).FirstOrDefault(thing => thing.IsCalled(word));
        if (thing is not null)
            return call.TellAsync(thing.Description);
        var isMe = word.Equals("me", StringComparison.OrdinalIgnoreCase);
        var other = isMe ? call.Player : call.Player.Room.Players.Find(other => other.Name.Equals(word, StringComparison.OrdinalIgnoreCase));
        return call.TellAsync(other is null ? $"You see no \"{word}\" here." : Describe(other));
    }

    private static ValueTask GetAsync(CommandCall call)
    {
        var word = call.Argument;
        var thing = call.Player.Room.Things.Find(thing => thing.IsCalled(word));
        if (thing is null)
            return call.TellAsync($"You see no \"{word}\" here.");
        if (thing.IsFixed)
            return call.TellAsync("It won't come along.");
        call.Player.Room.Things.Remove(thing);
        call.Player.Things.Add(thing);
        return call.TellRoomAsync($"You take {thing.Name}.", $"{call.Player.Name} takes {thing.Name}.");
    }

    private static ValueTask DropAsync(CommandCall call)
    {
        var word = call.Argument;
        var thing = call.Player.Things.Find(thing => thing.IsCalled(word));
        if (thing is null)
            return call.TellAsync($"You carry no \"{word}\".");
        call.Player.Things.Remove(thing);
        call.Player.Room.Things.Add(thing);
        return call.TellRoomAsync($"You drop {thing.Name}.", $"{call.Player.Name} drops {thing.Name}.");
    }

    private static ValueTask InventoryAsync(CommandCall call) => call.TellAsync(
        call.Player.Things.Count == 0 ? "You carry nothing." : $"You carry {Listed(call.Player.Things.Select(thing => thing.Name))}.");

    private static string Describe(Player player) => player.Things.Count == 0
        ? $"{player.Name} (#{player.Id}), with wind in the hair and empty hands."
        : $"{player.Name} (#{player.Id}), who carries {Listed(player.Things.Select(thing => thing.Name))}.";

    private static string Listed(IEnumerable<string> names)
    {
        var all = names.ToList();
        return all.Count < 2 ? string.Concat(all) : $"{string.Join(", ", all[..^1])} and {all[^1]}";
    }
}
