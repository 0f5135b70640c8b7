using Microsoft.Extensions.Logging;

namespace BatchKit.Diagnostics;

/// <summary>The core's log messages: ids 1 to 99. An event that can repeat is logged at most once a period, with its count.</summary>
internal static partial class Log
{
    public static void SendFailed(this ILogger logger, LogThrottle throttle, string route, int batches, Exception failure)
    {
        if (throttle.TryBegin(1, route, amount: 1, out var events))
            SendFailed(logger, route, batches, events.Count, ThrottledEvents.CauseOf(failure), events.TraceOf(failure));
    }

    public static void SendRecovered(this ILogger logger, LogThrottle throttle, string route, int attempts, TimeSpan duration)
    {
        if (throttle.TryBegin(2, route, amount: 1, out var events))
            SendRecovered(logger, route, attempts, duration, events.Count);
    }

    public static void BatchesRefused(this ILogger logger, LogThrottle throttle, string route, int batches, Exception failure)
    {
        if (throttle.TryBegin(3, route, batches, out var events))
            BatchesRefused(logger, route, events.Amount, events.Count, ThrottledEvents.CauseOf(failure), events.TraceOf(failure));
    }

    public static void BatchesGivenUp(this ILogger logger, LogThrottle throttle, string route, int batches, TimeSpan deliveryTimeout, Exception failure)
    {
        if (throttle.TryBegin(4, route, batches, out var events))
            BatchesGivenUp(logger, route, events.Amount, events.Count, deliveryTimeout, ThrottledEvents.CauseOf(failure), events.TraceOf(failure));
    }

    public static void ScopeExpired(this ILogger logger, LogThrottle throttle, TimeSpan maxScopeAge, string openerFile, int openerLine)
    {
        if (throttle.TryBegin(5, $"{openerFile}:{openerLine}", amount: 1, out var events))
            ScopeExpired(logger, maxScopeAge, openerFile, openerLine, events.Count);
    }

    [LoggerMessage(6, LogLevel.Information, "Output buffer '{Buffer}' drained and stopped.")]
    public static partial void Drained(this ILogger logger, string buffer);

    [LoggerMessage(7, LogLevel.Warning, "Output buffer '{Buffer}' stopped with {Messages} messages not sent within DrainTimeout ({DrainTimeout}); they count as dropped.")]
    public static partial void DrainTimedOut(this ILogger logger, string buffer, long messages, TimeSpan drainTimeout);

    public static void MessagesRefused(this ILogger logger, LogThrottle throttle, string route, int messages, Exception failure)
    {
        if (throttle.TryBegin(8, route, messages, out var events))
            MessagesRefused(logger, route, events.Amount, events.Count, ThrottledEvents.CauseOf(failure), events.TraceOf(failure));
    }

    public static void SendBroke(this ILogger logger, LogThrottle throttle, string route, Exception failure)
    {
        if (throttle.TryBegin(9, route, amount: 1, out var events))
            SendBroke(logger, route, events.Count, ThrottledEvents.CauseOf(failure), events.TraceOf(failure));
    }

    public static void CancellationFailed(this ILogger logger, LogThrottle throttle, Exception failure)
    {
        if (throttle.TryBegin(10, string.Empty, amount: 1, out var events))
            CancellationFailed(logger, events.Count, ThrottledEvents.CauseOf(failure), events.TraceOf(failure));
    }

    [LoggerMessage(1, LogLevel.Warning, "Route '{Route}' failed to send {Batches} batches; they are retried. Failures since the last such line: {Count}. {Cause}")]
    private static partial void SendFailed(ILogger logger, string route, int batches, long count, string cause, Exception? failure);

    [LoggerMessage(2, LogLevel.Information, "Route '{Route}' sent again after {Attempts} failed attempts in {Duration}. Recoveries since the last such line: {Count}.")]
    private static partial void SendRecovered(ILogger logger, string route, int attempts, TimeSpan duration, long count);

    [LoggerMessage(3, LogLevel.Warning, "Route '{Route}' refused {Batches} batches of {Count} sends for good since the last such line; their messages count as failed. {Cause}")]
    private static partial void BatchesRefused(ILogger logger, string route, long batches, long count, string cause, Exception? failure);

    [LoggerMessage(4, LogLevel.Warning, "Route '{Route}' gave up {Batches} batches of {Count} sends since the last such line, older than DeliveryTimeout ({DeliveryTimeout}); their messages count as failed. {Cause}")]
    private static partial void BatchesGivenUp(ILogger logger, string route, long batches, long count, TimeSpan deliveryTimeout, string cause, Exception? failure);

    [LoggerMessage(5, LogLevel.Warning, "A buffering scope was open for longer than MaxScopeAge ({MaxScopeAge}) and was closed; it was opened at {OpenerFile}:{OpenerLine}. Such scopes since the last such line: {Count}.")]
    private static partial void ScopeExpired(ILogger logger, TimeSpan maxScopeAge, string openerFile, int openerLine, long count);

    [LoggerMessage(8, LogLevel.Warning, "Route '{Route}' refused {Messages} messages of batches that it took, in {Count} sends since the last such line; they count as failed. {Cause}")]
    private static partial void MessagesRefused(ILogger logger, string route, long messages, long count, string cause, Exception? failure);

    [LoggerMessage(9, LogLevel.Error, "Route '{Route}' failed in an unexpected way; the messages of that send count as failed, and the route goes on. Failures since the last such line: {Count}. {Cause}")]
    private static partial void SendBroke(ILogger logger, string route, long count, string cause, Exception? failure);

    [LoggerMessage(10, LogLevel.Warning, "A handler of a send's cancellation threw an exception. Failures since the last such line: {Count}. {Cause}")]
    private static partial void CancellationFailed(ILogger logger, long count, string cause, Exception? failure);
}
