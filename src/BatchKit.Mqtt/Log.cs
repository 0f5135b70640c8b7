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

    [LoggerMessage(2403, LogLevel.Error, "The {Purpose}'s session at {Target} was taken over by another connection with the same client id.")]
    public static partial void SessionTakenOver(ILogger logger, string purpose, string target);

    [LoggerMessage(2404, LogLevel.Error, "The {Purpose} failed in a way that it must not; its connection was closed, and another follows.")]
    public static partial void ServingFailed(ILogger logger, Exception exception, string purpose);
}
