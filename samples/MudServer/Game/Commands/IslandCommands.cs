namespace MudServer.Game.Commands;

/// <summary>The commands of the island, in the order of the help.</summary>
internal static class IslandCommands
{
    public static CommandTable Create(World world, WhoList whoList)
    {
        IReadOnlyList<Command> commands = [];
        var session = new SessionCommands(whoList, () => commands);
        commands = [.. new MoveCommands().All, .. new TalkCommands(world).All, .. new LoopCommands().All, .. session.All];
        return new CommandTable(commands);
    }
}
