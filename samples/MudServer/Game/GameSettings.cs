namespace MudServer.Game;

/// <summary>What the game needs to know of how the server was started.</summary>
/// <param name="IsBuffered">Whether a new session's output is buffered.</param>
/// <param name="ClosesConnections">True when the connections end with the game; false when a gateway keeps them.</param>
internal sealed record GameSettings(bool IsBuffered, bool ClosesConnections)
{
    public string Goodbye => ClosesConnections
        ? "The sun sets on Lantern Isle, and the last ferry takes you home. Goodbye!"
        : "Fog rolls in, and the island is gone for a moment. Goodbye! Your next line finds it again when it is back.";
}
