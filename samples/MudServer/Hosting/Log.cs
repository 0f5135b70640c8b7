namespace MudServer.Hosting;

/// <summary>What the hosting of the sample logs.</summary>
internal static partial class Log
{
    [LoggerMessage(EventId = 21, Level = LogLevel.Warning, Message = "The game stopped, and {Messages} of its last messages were not delivered")]
    public static partial void LastWordsLost(ILogger logger, long messages);
}
