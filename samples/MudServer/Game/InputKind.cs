namespace MudServer.Game;

/// <summary>The kind of a message from a connection to the game.</summary>
internal enum InputKind
{
    /// <summary>A line that its user typed.</summary>
    Line = 0,

    /// <summary>The connection is new.</summary>
    Connected = 1,

    /// <summary>A line was too long, and was dropped.</summary>
    LineTooLong = 2,

    /// <summary>The client sends no more, and may still read: the game answers its earlier lines, then closes the connection.</summary>
    Finished = 3,

    /// <summary>The connection has ended.</summary>
    Gone = 4,

    /// <summary>The node has started: its earlier connections have ended.</summary>
    NodeStarted = 5,

    /// <summary>Of another game: a player has come or moved.</summary>
    PlayerHere = 6,

    /// <summary>Of another game: a player has left.</summary>
    PlayerGone = 7,

    /// <summary>Of another game: it has told all its players.</summary>
    PlayersTold = 8,

    /// <summary>Of another game: it has started, and asks for all players and for its shard.</summary>
    GameStarted = 9,

    /// <summary>Of another game: a line for a player that is away.</summary>
    PlayerText = 10,

    /// <summary>Of this game: it is time to look which players were away for too long.</summary>
    Check = 11,

    /// <summary>The gateway ends, and sends the client to another one. Nothing more comes of this connection but its end.</summary>
    Leaving = 12,

    /// <summary>Of this game: the password of a connection has been hashed.</summary>
    PasswordChecked = 13,
}
