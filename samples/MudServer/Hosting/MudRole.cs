namespace MudServer.Hosting;

/// <summary>The part of the server that this process runs.</summary>
internal enum MudRole
{
    /// <summary>The game and its clients in one process.</summary>
    All = 0,

    /// <summary>The game alone: players connect through a gateway.</summary>
    Game = 1,

    /// <summary>The clients alone: their lines go to the game.</summary>
    Gateway = 2,
}
