namespace MudServer.Game;

/// <summary>A connection as the game knows it: a handle, what its user has set, and the player once there is one.</summary>
internal sealed class Session(OutputHandle handle, bool isBuffered, long connectedAt)
{
    public OutputHandle Handle { get; } = handle;

    public Player? Player { get; set; }

    /// <summary>False shows the old behaviour: every message is sent, and waited for, by itself.</summary>
    public bool IsBuffered { get; set; } = isBuffered;

    public bool IsTimed { get; set; }

    /// <summary>True once it was told to close: it gets no more output.</summary>
    public bool IsClosing { get; set; }

    /// <summary>A timestamp of the game's clock.</summary>
    public long ConnectedAt { get; } = connectedAt;

    /// <summary>A timestamp of the game's clock.</summary>
    public long LastInputAt { get; set; } = connectedAt;
}
