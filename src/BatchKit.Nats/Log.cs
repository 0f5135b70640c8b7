using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Nats;

/// <summary>The log messages of this package; ids start at 3000.</summary>
internal static partial class Log
{
    [LoggerMessage(3005, LogLevel.Warning, "{Target} is a server before version 2.10, which filters by one subject only: this node reads the frames of all nodes of {Prefix} and skips those of others. A newer server sends it its own only.")]
    public static partial void ReadsAllNodes(ILogger logger, string target, string prefix);

    public static void MessageRefused(ILogger logger, LogThrottle throttle, string reason)
    {
        if (throttle.TryBegin(3007, string.Empty, amount: 1, out var events))
            MessageRefused(logger, reason, events.Count);
    }

    [LoggerMessage(3007, LogLevel.Warning, "{Reason} It is lost. Such messages since the last such line: {Count}.")]
    private static partial void MessageRefused(ILogger logger, string reason, long count);
}
