namespace MudServer.Hosting;

/// <summary>What the hosting of the sample logs.</summary>
internal static partial class Log
{
    [LoggerMessage(EventId = 21, Level = LogLevel.Warning, Message = "The game stopped before all of its last words were delivered: {Reason}")]
    public static partial void LastWordsLost(ILogger logger, string reason);
}
