using Microsoft.Extensions.Logging;

namespace BatchKit.Diagnostics;

/// <summary>The core's log messages: ids 1 to 99, and from 200 what a receiver logs. An event that can repeat is logged at most once a period, with its count.</summary>
/// <remarks>One class, because the generator writes several in an order that differs from one compilation to the next, and a package could not be built again to the same bytes.</remarks>
internal static partial class Log
{
    public static void SendFailed(this ILogger logger, LogThrottle throttle, string route, int batches, Exception failure) =>
        throttle.Log(1, route, amount: 1, events => SendFailed(logger, route, batches, events.Count, FailureText.Describe(failure), events.TraceOf(failure)));

    public static void SendRecovered(this ILogger logger, LogThrottle throttle, string route, int attempts, TimeSpan duration) =>
        throttle.Log(2, route, amount: 1, events => SendRecovered(logger, route, attempts, duration, events.Count));

    public static void BatchesRefused(this ILogger logger, LogThrottle throttle, string route, int batches, Exception failure) =>
        throttle.Log(3, route, batches, events => BatchesRefused(logger, route, events.Amount, events.Count, FailureText.Describe(failure), events.TraceOf(failure)));

    public static void BatchesGivenUp(this ILogger logger, LogThrottle throttle, string route, int batches, TimeSpan deliveryTimeout, Exception failure) =>
        throttle.Log(4, route, batches, events => BatchesGivenUp(logger, route, events.Amount, events.Count, deliveryTimeout, FailureText.Describe(failure), events.TraceOf(failure)));

    public static void ScopeExpired(this ILogger logger, LogThrottle throttle, TimeSpan maxScopeAge, string openerFile, int openerLine) =>
        throttle.Log(5, $"{openerFile}:{openerLine}", amount: 1, events => ScopeExpired(logger, maxScopeAge, openerFile, openerLine, events.Count));

    public static void ScopesOverlapped(this ILogger logger, LogThrottle throttle, TimeSpan maxScopeAge, string openerFile, int openerLine) =>
        throttle.Log(15, $"{openerFile}:{openerLine}", amount: 1, events => ScopesOverlapped(logger, maxScopeAge, openerFile, openerLine, events.Count));

    public static void ForwardFailed(this ILogger logger, LogThrottle throttle, Exception failure)
    {
        if (throttle.TryBegin(14, string.Empty, amount: 1, out var events))
            ForwardFailed(logger, events.Count, FailureText.Describe(failure), events.TraceOf(failure));
    }

    [LoggerMessage(6, LogLevel.Information, "Output buffer '{Buffer}' drained and stopped.")]
    public static partial void Drained(this ILogger logger, string buffer);

    /// <param name="logger">The logger.</param>
    /// <param name="buffer">The buffer's name.</param>
    /// <param name="messages">How many messages are left.</param>
    /// <param name="drainTimeout">The limit that has passed; null when the stop's token was cancelled before.</param>
    public static void DrainEnded(this ILogger logger, string buffer, long messages, TimeSpan? drainTimeout) => DrainEnded(
        logger, buffer, messages, drainTimeout is { } limit ? $"DrainTimeout ({limit}) has passed" : "the stop's token was cancelled, as the host does after HostOptions.ShutdownTimeout");

    public static void MessagesRefused(this ILogger logger, LogThrottle throttle, string route, int messages, Exception failure) =>
        throttle.Log(8, route, messages, events => MessagesRefused(logger, route, events.Amount, events.Count, FailureText.Describe(failure), events.TraceOf(failure)));

    public static void SendBroke(this ILogger logger, LogThrottle throttle, string route, Exception failure) =>
        throttle.Log(9, route, amount: 1, events => SendBroke(logger, route, events.Count, FailureText.Describe(failure), events.TraceOf(failure)));

    public static void CancellationFailed(this ILogger logger, LogThrottle throttle, Exception failure) =>
        throttle.Log(10, string.Empty, amount: 1, events => CancellationFailed(logger, events.Count, FailureText.Describe(failure), events.TraceOf(failure)));

    public static void SendBlocks(this ILogger logger, LogThrottle throttle, string route, Exception failure) =>
        throttle.Log(16, route, amount: 1, events => SendBlocks(logger, route, events.Count, FailureText.Describe(failure)));

    [LoggerMessage(11, LogLevel.Error, "Output buffer '{Buffer}' stopped before {Messages} messages were sent: a transport blocks the thread of its send, and did not end within {Time} after its token was cancelled.")]
    public static partial void TransportBlocks(this ILogger logger, string buffer, long messages, TimeSpan time);

    [LoggerMessage(12, LogLevel.Warning, "The configuration key '{Key}' is unknown and is ignored. Did you mean '{Nearest}'?")]
    public static partial void KeyUnknown(this ILogger logger, string key, string nearest);

    [LoggerMessage(13, LogLevel.Warning, "The configuration has {What} '{Section}', so its settings have their defaults.")]
    public static partial void SectionMissing(this ILogger logger, string what, string section);

    [LoggerMessage(1, LogLevel.Warning, "Route '{Route}' failed to send {Batches} batches; they are retried. Failures since the last such line: {Count}. {Cause}")]
    private static partial void SendFailed(ILogger logger, string route, int batches, long count, string cause, Exception? failure);

    [LoggerMessage(2, LogLevel.Information, "Route '{Route}' sent again after {Attempts} failed attempts in {Duration}. Recoveries since the last such line: {Count}.")]
    private static partial void SendRecovered(ILogger logger, string route, int attempts, TimeSpan duration, long count);

    [LoggerMessage(3, LogLevel.Warning, "Route '{Route}' refused {Batches} batches of {Count} sends since the last such line; their messages count as failed. {Cause}")]
    private static partial void BatchesRefused(ILogger logger, string route, long batches, long count, string cause, Exception? failure);

    [LoggerMessage(4, LogLevel.Warning, "Route '{Route}' gave up {Batches} batches of {Count} sends since the last such line, older than DeliveryTimeout ({DeliveryTimeout}); their messages count as failed. {Cause}")]
    private static partial void BatchesGivenUp(ILogger logger, string route, long batches, long count, TimeSpan deliveryTimeout, string cause, Exception? failure);

    [LoggerMessage(5, LogLevel.Warning, "A buffering scope was open for longer than MaxScopeAge ({MaxScopeAge}) and was closed; it was opened at {OpenerFile}:{OpenerLine}. Such scopes since the last such line: {Count}.")]
    private static partial void ScopeExpired(ILogger logger, TimeSpan maxScopeAge, string openerFile, int openerLine, long count);

    [LoggerMessage(7, LogLevel.Warning, "Output buffer '{Buffer}' stopped with {Messages} messages not sent, which count as dropped: {Cause}.")]
    private static partial void DrainEnded(ILogger logger, string buffer, long messages, string cause);

    [LoggerMessage(8, LogLevel.Warning, "Route '{Route}' refused {Messages} messages of batches that it accepted, in {Count} sends since the last such line; they count as failed. {Cause}")]
    private static partial void MessagesRefused(ILogger logger, string route, long messages, long count, string cause, Exception? failure);

    [LoggerMessage(9, LogLevel.Error, "Route '{Route}' failed unexpectedly; the messages of that send count as failed, and the route goes on. Failures since the last such line: {Count}. {Cause}")]
    private static partial void SendBroke(ILogger logger, string route, long count, string cause, Exception? failure);

    [LoggerMessage(10, LogLevel.Warning, "A callback of a send's cancellation token threw an exception. Failures since the last such line: {Count}. {Cause}")]
    private static partial void CancellationFailed(ILogger logger, long count, string cause, Exception? failure);

    [LoggerMessage(15, LogLevel.Warning, "Scopes on one handle overlapped without a gap for longer than twice MaxScopeAge ({MaxScopeAge}), and what they held back was sent; the last was opened at {OpenerFile}:{OpenerLine}. With a limit (maxHold) they send sooner. Such spans since the last such line: {Count}.")]
    private static partial void ScopesOverlapped(ILogger logger, TimeSpan maxScopeAge, string openerFile, int openerLine, long count);

    [LoggerMessage(16, LogLevel.Warning, "Route '{Route}' sends nothing until a send returns. Such sends since the last such line: {Count}. {Cause}")]
    private static partial void SendBlocks(ILogger logger, string route, long count, string cause);

    [LoggerMessage(14, LogLevel.Warning, "Output of a session could not be handed to its connection; its history has it. Failures since the last such line: {Count}. {Cause}")]
    private static partial void ForwardFailed(ILogger logger, long count, string cause, Exception? failure);

    public static void NextHopFailed(this ILogger logger, LogThrottle throttle, int batches, int failures, TimeSpan delay, Exception exception) =>
        throttle.Log(200, string.Empty, amount: 1, events => NextHopFailed(logger, batches, failures, delay, FailureText.Describe(exception), events.TraceOf(exception)));

    public static void NextHopRecovered(this ILogger logger, LogThrottle throttle, int failures) =>
        throttle.Log(201, string.Empty, amount: 1, _ => NextHopRecovered(logger, failures));

    public static void ReceivedMessagesRefused(this ILogger logger, LogThrottle throttle, int messages, int batches, Exception exception) =>
        throttle.Log(202, string.Empty, messages, events => ReceivedMessagesRefused(logger, events.Amount, batches, FailureText.Describe(exception), events.TraceOf(exception)));

    public static void ReceivedBatchesGivenUp(this ILogger logger, LogThrottle throttle, int batches, int messages, TimeSpan deliveryTimeout, Exception exception) =>
        throttle.Log(203, string.Empty, amount: 1, events => ReceivedBatchesGivenUp(logger, batches, messages, deliveryTimeout, events.Count, FailureText.Describe(exception), events.TraceOf(exception)));

    public static void MessagesGivenUp(this ILogger logger, LogThrottle throttle, int messages, TimeSpan deliveryTimeout, Exception exception) =>
        throttle.Log(205, string.Empty, messages, events => MessagesGivenUp(logger, messages, deliveryTimeout, events.Amount, FailureText.Describe(exception), events.TraceOf(exception)));

    public static void FramesRejected(this ILogger logger, LogThrottle throttle, string reason, TimeSpan period)
    {
        if (throttle.TryBegin(206, string.Empty, amount: 1, out var events))
            FramesRejected(logger, events.Count, reason, period);
    }

    public static void HandlerFailed(this ILogger logger, LogThrottle throttle, int messages, Exception exception)
    {
        if (throttle.TryBegin(207, string.Empty, amount: 1, out var events))
            HandlerFailed(logger, messages, events.Count, FailureText.Describe(exception), events.TraceOf(exception));
    }

    [LoggerMessage(200, LogLevel.Warning, "The next hop did not accept {Batches} received batches, {Failures} consecutive times; the next try is in {Delay}. {Cause}")]
    private static partial void NextHopFailed(ILogger logger, int batches, int failures, TimeSpan delay, string cause, Exception? exception);

    [LoggerMessage(201, LogLevel.Information, "The next hop accepts received batches again, after {Failures} failures.")]
    private static partial void NextHopRecovered(ILogger logger, int failures);

    [LoggerMessage(202, LogLevel.Warning, "The next hop refused {Messages} received messages since the last such line; in the last frame it refused all messages of {Batches} batches. {Cause}")]
    private static partial void ReceivedMessagesRefused(ILogger logger, long messages, int batches, string cause, Exception? exception);

    [LoggerMessage(203, LogLevel.Warning, "The next hop did not accept {Batches} received batches with {Messages} messages within DeliveryTimeout ({DeliveryTimeout}); they were refused. Such refusals since the last such line: {Count}. {Cause}")]
    private static partial void ReceivedBatchesGivenUp(ILogger logger, int batches, int messages, TimeSpan deliveryTimeout, long count, string cause, Exception? exception);

    [LoggerMessage(205, LogLevel.Warning, "{Messages} received messages were refused: the next hop failed for longer than DeliveryTimeout ({DeliveryTimeout}). Such messages since the last such line: {Total}. {Cause}")]
    private static partial void MessagesGivenUp(ILogger logger, int messages, TimeSpan deliveryTimeout, long total, string cause, Exception? exception);

    [LoggerMessage(206, LogLevel.Warning, "{Frames} received frames were rejected and dropped, the last because {Reason}; further ones are reported once in {Period}.")]
    private static partial void FramesRejected(ILogger logger, long frames, string reason, TimeSpan period);

    [LoggerMessage(207, LogLevel.Warning, "The handler failed for a batch of {Messages} received messages and gets each of them alone. Such failures since the last such line: {Count}. {Cause}")]
    private static partial void HandlerFailed(ILogger logger, int messages, long count, string cause, Exception? exception);
}
