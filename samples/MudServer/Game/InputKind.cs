namespace MudServer.Game;

/// <summary>What a connection has to tell the game.</summary>
internal enum InputKind
{
    /// <summary>A line that its user typed.</summary>
    Line = 0,

    /// <summary>It is new.</summary>
    Connected = 1,

    /// <summary>A line was longer than a line may be, and was thrown away.</summary>
    LineTooLong = 2,

    /// <summary>Its user sends no more, and may still read: answer what came before, then close it.</summary>
    Finished = 3,

    /// <summary>It is closed.</summary>
    Gone = 4,

    /// <summary>Its node has started: connections of the node from before are gone.</summary>
    NodeStarted = 5,
}
