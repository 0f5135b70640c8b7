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

    [LoggerMessage(2405, LogLevel.Error,
        "The {Purpose}'s connections to {Target} were closed {Count} times in a row, soon after they were accepted and without a reason: mostly another connection has the same client id.")]
    public static partial void EndedAgain(ILogger logger, string purpose, string target, int count);

    [LoggerMessage(2440, LogLevel.Information, "Receiving by {Count} subscriptions from {Target}.")]
    public static partial void Receiving(ILogger logger, int count, string target);

    [LoggerMessage(2441, LogLevel.Error, "The subscription {Filter} was refused by {Target}: {Reason}")]
    public static partial void SubscriptionRefused(ILogger logger, string filter, string target, string reason);

    [LoggerMessage(2442, LogLevel.Warning, "The subscription {Filter} was granted QoS 0 only by {Target}: what a lost connection had under way is lost.")]
    public static partial void SubscriptionLowered(ILogger logger, string filter, string target);

    [LoggerMessage(2443, LogLevel.Warning, "A message of {Bytes} bytes that is no frame was dropped.")]
    public static partial void FrameDropped(ILogger logger, Exception exception, int bytes);

    [LoggerMessage(2444, LogLevel.Warning, "What was in hand from {Target} was abandoned at the stop, after {Limit}; the broker keeps what had QoS 1.")]
    public static partial void Abandoned(ILogger logger, string target, TimeSpan limit);
}
