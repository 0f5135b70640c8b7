namespace MudServer.Game;

/// <summary>Lists the connected players, for the world and for the lobby.</summary>
internal sealed class WhoList(World world, TimeProvider timeProvider)
{
    private const int LineCharacters = 80;

    public int Lines => world.Players.Count + 2;

    public int Characters => Lines * LineCharacters;

    public async ValueTask WriteAsync(GameOutput output, Session session)
    {
        await output.LineAsync(session, $"{"Name",-20} {"On for",8} {"Idle",6}  Where");
        foreach (var player in world.Players)
        {
            var connected = timeProvider.GetElapsedTime(player.Session.ConnectedAt);
            var idle = timeProvider.GetElapsedTime(player.Session.LastInputAt);
            await output.LineAsync(session, $"{player.Name,-20} {connected:hh\\:mm\\:ss} {(int)idle.TotalSeconds,5}s  {player.Room.Name}{(player.Session.IsAway ? " (away)" : string.Empty)}");
        }

        await output.LineAsync(session, world.Players.Count == 1 ? "1 player is connected." : $"{world.Players.Count} players are connected.");
    }
}
