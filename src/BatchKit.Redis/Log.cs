using Microsoft.Extensions.Logging;

namespace BatchKit.Redis;

/// <summary>The log messages of this package; ids start at 2900.</summary>
internal static partial class Log
{
    [LoggerMessage(2900, LogLevel.Information, "Connected to {Target}.")]
    public static partial void Connected(ILogger logger, string target);

    [LoggerMessage(2901, LogLevel.Warning, "{Target} has not answered yet. Output for other nodes is lost until it does.")]
    public static partial void NotConnected(ILogger logger, string target);

    [LoggerMessage(2902, LogLevel.Warning, "The connection to {Target} was lost: {Reason} Output for other nodes is lost until it is back.")]
    public static partial void ConnectionLost(ILogger logger, string target, string reason);

    [LoggerMessage(2903, LogLevel.Information, "Receiving what is published to {Pattern} at {Target}.")]
    public static partial void Receiving(ILogger logger, string pattern, string target);

    [LoggerMessage(2904, LogLevel.Warning, "The receiver could not subscribe at {Target}: {Reason} It tries again.")]
    public static partial void SubscribeFailed(ILogger logger, string target, string reason);

    [LoggerMessage(2910, LogLevel.Warning, "{Count} received frames were dropped, because more than RedisOptions.MaxWaitingFrames ({Limit}) waited for the next hop.")]
    public static partial void FramesDropped(ILogger logger, long count, int limit);
}
