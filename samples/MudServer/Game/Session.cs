using AwaySession = BatchKit.Sessions.Session;

namespace MudServer.Game;

/// <summary>A connection in the game: its handle, the settings of its user, and its player once there is one.</summary>
internal sealed class Session(OutputHandle handle, bool isBuffered, long connectedAt)
{
    public OutputHandle Handle { get; } = handle;

    public Player? Player { get; set; }

    /// <summary>The name whose password is asked for; null when none is.</summary>
    public string? AskedName { get; set; }

    /// <summary>The password that was typed, once it has been hashed.</summary>
    public CheckedPassword? Checked { get; set; }

    public int WrongPasswords { get; set; }

    /// <summary>The shard that its input is sent to.</summary>
    public int Shard { get; set; } = 1;

    /// <summary>What keeps its output since the gateway sent its player away; null for a session that is connected.</summary>
    public AwaySession? Away { get; set; }

    /// <summary>True when another game plays it, and keeps the output of its player, who is away.</summary>
    public bool IsAwayElsewhere { get; set; }

    /// <summary>True when a gateway has sent its player away, and no other one has brought the player back yet.</summary>
    public bool IsAway => Away is not null || IsAwayElsewhere;

    /// <summary>False sends each message alone and waits for it, for comparison.</summary>
    public bool IsBuffered { get; set; } = isBuffered;

    public bool IsTimed { get; set; }

    /// <summary>Ends when the last answer is complete, beside the game loop.</summary>
    public Task Answering { get; set; } = Task.CompletedTask;

    /// <summary>True once it is being closed: it gets no more output.</summary>
    public bool IsClosing { get; set; }

    /// <summary>A timestamp of the game's clock.</summary>
    public long ConnectedAt { get; } = connectedAt;

    /// <summary>A timestamp of the game's clock.</summary>
    public long LastInputAt { get; set; } = connectedAt;
}
