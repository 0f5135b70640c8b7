namespace MudServer.Hosting;

/// <summary>Which part of the server this process is.</summary>
internal enum MudRole
{
    /// <summary>The game and its clients in one process.</summary>
    All = 0,

    /// <summary>The game alone: players come through a gateway.</summary>
    Game = 1,

    /// <summary>The clients alone: what they type goes to the game.</summary>
    Gateway = 2,
}
