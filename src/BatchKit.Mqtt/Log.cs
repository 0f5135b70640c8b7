using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt;

/// <summary>What this package logs; ids from 2400.</summary>
internal static partial class Log
{
    [LoggerMessage(2400, LogLevel.Information, "The {Purpose} connected to {Target}.")]
    public static partial void Connected(ILogger logger, string purpose, string target);

    [LoggerMessage(2401, LogLevel.Warning, "The {Purpose} could not connect: {Reason}")]
    public static partial void ConnectFailed(ILogger logger, string purpose, string reason);

    [LoggerMessage(2402, LogLevel.Warning, "The {Purpose} lost its connection to {Target}: {Reason}")]
    public static partial void ConnectionLost(ILogger logger, string purpose, string target, string reason);
}
