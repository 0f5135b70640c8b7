using Microsoft.Extensions.Logging;

namespace BatchKit.Diagnostics;

/// <summary>The core's log messages: ids 1 to 99.</summary>
internal static partial class Log
{
    [LoggerMessage(1, LogLevel.Warning, "Route '{Route}' failed to send {Batches} batches; they are retried.")]
    public static partial void SendFailed(this ILogger logger, string route, int batches, Exception failure);

    [LoggerMessage(2, LogLevel.Information, "Route '{Route}' sent again after {Attempts} failed attempts in {Duration}.")]
    public static partial void SendRecovered(this ILogger logger, string route, int attempts, TimeSpan duration);

    [LoggerMessage(3, LogLevel.Warning, "Route '{Route}' refused {Batches} batches for good; their messages count as failed.")]
    public static partial void BatchesRefused(this ILogger logger, string route, int batches, Exception failure);

    [LoggerMessage(4, LogLevel.Warning, "Route '{Route}' gave up {Batches} batches older than DeliveryTimeout ({DeliveryTimeout}); their messages count as failed.")]
    public static partial void BatchesGivenUp(this ILogger logger, string route, int batches, TimeSpan deliveryTimeout, Exception failure);

    [LoggerMessage(5, LogLevel.Warning, "A buffering scope was open for longer than MaxScopeAge ({MaxScopeAge}) and was closed; it was opened at {OpenerFile}:{OpenerLine}.")]
    public static partial void ScopeExpired(this ILogger logger, TimeSpan maxScopeAge, string openerFile, int openerLine);

    [LoggerMessage(6, LogLevel.Information, "Output buffer '{Buffer}' drained and stopped.")]
    public static partial void Drained(this ILogger logger, string buffer);

    [LoggerMessage(7, LogLevel.Warning, "Output buffer '{Buffer}' stopped with {Messages} messages not sent within DrainTimeout ({DrainTimeout}); they count as dropped.")]
    public static partial void DrainTimedOut(this ILogger logger, string buffer, long messages, TimeSpan drainTimeout);

    [LoggerMessage(8, LogLevel.Warning, "Route '{Route}' refused {Messages} messages of batches that it took; they count as failed.")]
    public static partial void MessagesRefused(this ILogger logger, string route, int messages, Exception failure);

    [LoggerMessage(9, LogLevel.Error, "Route '{Route}' failed in an unexpected way; the messages of that send count as failed, and the route goes on.")]
    public static partial void SendBroke(this ILogger logger, string route, Exception failure);

    [LoggerMessage(10, LogLevel.Warning, "A handler of a send's cancellation threw an exception.")]
    public static partial void CancellationFailed(this ILogger logger, Exception failure);
}
