namespace MudServer.Hosting;

/// <summary>The log messages of the host.</summary>
internal static partial class Log
{
    [LoggerMessage(EventId = 21, Level = LogLevel.Warning, Message = "The game stopped before its goodbye was delivered to all players: {Reason}")]
    public static partial void LastWordsLost(ILogger logger, string reason);
}
