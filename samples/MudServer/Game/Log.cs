namespace MudServer.Game;

/// <summary>The log messages of the game.</summary>
internal static partial class Log
{
    [LoggerMessage(EventId = 1, Level = LogLevel.Error, Message = "A command failed; its player got what it had written so far")]
    public static partial void CommandFailed(ILogger logger, Exception exception);
}
