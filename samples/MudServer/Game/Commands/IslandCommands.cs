namespace MudServer.Game.Commands;

/// <summary>The commands of the island, in the order of the help.</summary>
internal static class IslandCommands
{
    public static CommandTable Create(World world, WhoList whoList, Comparison comparison)
    {
        CommandTable? table = null;
        var session = new SessionCommands(whoList, comparison, () => table!);
        return table = new CommandTable([.. new MoveCommands().All, .. new TalkCommands(world).All, .. new LoopCommands().All, .. session.All]);
    }
}
