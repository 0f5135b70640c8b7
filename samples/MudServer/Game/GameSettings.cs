namespace MudServer.Game;

/// <summary>The settings of the server that the game needs.</summary>
/// <param name="IsBuffered">Whether a new session's output is buffered.</param>
/// <param name="ClosesConnections">True when the connections end with the game; false when a gateway keeps them.</param>
/// <param name="Hop">What is between the game and the sockets, as players read it, such as "a simulated broker".</param>
/// <param name="FirstNode">The node number of the first shard.</param>
/// <param name="AwayLimit">How long a player is kept whose gateway has ended.</param>
internal sealed record GameSettings(bool IsBuffered, bool ClosesConnections, string Hop, int FirstNode, TimeSpan AwayLimit)
{
    public string Goodbye => ClosesConnections
        ? "The sun sets on Lantern Isle, and the last ferry takes you home. Goodbye!"
        : "Fog hides the island for a while. Goodbye! Your next line may find it again.";
}
