using Microsoft.Extensions.Logging;

namespace BatchKit.Nats;

/// <summary>The log messages of this package; ids start at 3000.</summary>
internal static partial class Log
{
    [LoggerMessage(3000, LogLevel.Information, "Connected to {Target}.")]
    public static partial void Connected(ILogger logger, string target);

    [LoggerMessage(3001, LogLevel.Warning, "{Fault} It tries again.")]
    public static partial void ConnectFailed(ILogger logger, string fault);

    [LoggerMessage(3002, LogLevel.Warning, "The connection to {Target} was lost. The client connects again.")]
    public static partial void ConnectionLost(ILogger logger, string target);

    [LoggerMessage(3003, LogLevel.Information, "Receiving the frames for node {Node} of {Prefix} at {Target}.")]
    public static partial void Receiving(ILogger logger, int node, string prefix, string target);

    [LoggerMessage(3004, LogLevel.Warning, "The receiver of {Prefix} receives nothing: {Reason} It tries again.")]
    public static partial void ReceivingEnded(ILogger logger, string prefix, string reason);

    [LoggerMessage(3005, LogLevel.Warning, "{Target} is a server before version 2.10, which filters by one subject only: this node reads the frames of all nodes of {Prefix} and skips those of others. A newer server sends it its own only.")]
    public static partial void ReadsAllNodes(ILogger logger, string target, string prefix);

    [LoggerMessage(3010, LogLevel.Warning, "{Count} received frames were dropped, because more than NatsOptions.MaxWaitingFrames ({Limit}) waited for the next hop.")]
    public static partial void FramesDropped(ILogger logger, long count, int limit);
}
