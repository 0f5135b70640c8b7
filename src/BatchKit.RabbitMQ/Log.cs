using Microsoft.Extensions.Logging;

namespace BatchKit.RabbitMQ;

/// <summary>The log messages of this package; ids start at 2100.</summary>
internal static partial class Log
{
    [LoggerMessage(2100, LogLevel.Information, "The {Purpose} connected to {Target}.")]
    public static partial void Connected(ILogger logger, string purpose, string target);

    [LoggerMessage(2101, LogLevel.Warning, "The {Purpose} could not connect: {Reason}")]
    public static partial void ConnectFailed(ILogger logger, string purpose, string reason);

    [LoggerMessage(2102, LogLevel.Warning, "The {Purpose} lost its connection to {Target}: {Reason}.")]
    public static partial void ConnectionLost(ILogger logger, string purpose, string target, string reason);

    [LoggerMessage(2103, LogLevel.Warning, "{Target} stopped accepting messages: {Reason}.")]
    public static partial void Blocked(ILogger logger, string target, string reason);

    [LoggerMessage(2104, LogLevel.Information, "{Target} accepts messages again.")]
    public static partial void Unblocked(ILogger logger, string target);

    [LoggerMessage(2105, LogLevel.Warning, "Exchange {Exchange} of {Target} was deleted. The sender declares it again, and holds back output for groups for {Limit}, so that receivers can bind their queues again.")]
    public static partial void ExchangeMissing(ILogger logger, string exchange, string target, TimeSpan limit);

    [LoggerMessage(2106, LogLevel.Information, "Output for groups goes to all nodes, because the broker does not allow the sender to see their bindings: {Reason}.")]
    public static partial void GroupsGoToAll(ILogger logger, string reason);

    [LoggerMessage(2110, LogLevel.Information, "Receiving from queue {Queue} at {Target}.")]
    public static partial void Receiving(ILogger logger, string queue, string target);

    [LoggerMessage(2111, LogLevel.Warning, "Receiving from queue {Queue} ended: {Reason} The receiver connects again.")]
    public static partial void ReceivingEnded(ILogger logger, string queue, string reason);

    [LoggerMessage(2112, LogLevel.Warning, "A malformed frame of {Bytes} bytes was rejected from queue {Queue}.")]
    public static partial void FrameRejected(ILogger logger, Exception exception, int bytes, string queue);

    [LoggerMessage(2113, LogLevel.Error, "The next transport failed unexpectedly with a frame from queue {Queue}; the broker delivers the frame again.")]
    public static partial void FrameFailed(ILogger logger, Exception exception, string queue);

    [LoggerMessage(2115, LogLevel.Warning, "Queue {Queue} may receive no new frames: {Reason}")]
    public static partial void TopologyWrong(ILogger logger, string queue, string reason);

    [LoggerMessage(2116, LogLevel.Information, "Queue {Queue} gets the output of all groups, because the broker does not allow the receiver to bind single ones: {Reason}.")]
    public static partial void GroupsNotBound(ILogger logger, string queue, string reason);
}
