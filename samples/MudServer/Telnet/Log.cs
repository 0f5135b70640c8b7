namespace MudServer.Telnet;

/// <summary>What the telnet side logs.</summary>
internal static partial class Log
{
    [LoggerMessage(EventId = 11, Level = LogLevel.Warning, Message = "A client could not be accepted")]
    public static partial void AcceptFailed(ILogger logger, Exception exception);

    [LoggerMessage(EventId = 12, Level = LogLevel.Error, Message = "A connection ended with an error")]
    public static partial void ConnectionFailed(ILogger logger, Exception exception);
}
