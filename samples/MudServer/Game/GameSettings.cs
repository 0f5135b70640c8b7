namespace MudServer.Game;

/// <summary>What the game needs to know of how the server was started.</summary>
/// <param name="IsBuffered">Whether a new session's output is buffered.</param>
/// <param name="ClosesConnections">True when the connections end with the game; false when a gateway keeps them.</param>
/// <param name="Hop">What lies between the game and the sockets, for players: "a simulated broker", for example.</param>
internal sealed record GameSettings(bool IsBuffered, bool ClosesConnections, string Hop)
{
    public string Goodbye => ClosesConnections
        ? "The sun sets on Lantern Isle, and the last ferry takes you home. Goodbye!"
        : "Fog hides the island for a while. Goodbye! Your next line may find it again.";
}
