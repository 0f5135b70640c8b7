using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

/// <summary>What a receiver logs; event ids from 200. An event that can repeat is logged at most once a period, with its count.</summary>
internal static partial class ReceiverLog
{
    public static void NextHopFailed(ILogger logger, LogThrottle throttle, int batches, int failures, TimeSpan delay, Exception exception)
    {
        if (throttle.TryBegin(200, string.Empty, amount: 1, out var events))
            NextHopFailed(logger, batches, failures, delay, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void NextHopRecovered(ILogger logger, LogThrottle throttle, int failures)
    {
        if (throttle.TryBegin(201, string.Empty, amount: 1, out _))
            NextHopRecovered(logger, failures);
    }

    public static void MessagesRefused(ILogger logger, LogThrottle throttle, int messages, int batches, Exception exception)
    {
        if (throttle.TryBegin(202, string.Empty, messages, out var events))
            MessagesRefused(logger, events.Amount, batches, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void BatchesGivenUp(ILogger logger, LogThrottle throttle, int batches, int messages, TimeSpan deliveryTimeout, Exception exception)
    {
        if (throttle.TryBegin(203, string.Empty, amount: 1, out var events))
            BatchesGivenUp(logger, batches, messages, deliveryTimeout, events.Count, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void MessagesGivenUp(ILogger logger, LogThrottle throttle, int messages, TimeSpan deliveryTimeout, Exception exception)
    {
        if (throttle.TryBegin(205, string.Empty, messages, out var events))
            MessagesGivenUp(logger, messages, deliveryTimeout, events.Amount, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void FrameDropped(ILogger logger, LogThrottle throttle, int bytes, Exception exception)
    {
        if (throttle.TryBegin(204, string.Empty, amount: 1, out var events))
            FrameDropped(logger, bytes, events.Count, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void FramesRejected(ILogger logger, LogThrottle throttle, string reason, TimeSpan period)
    {
        if (throttle.TryBegin(206, string.Empty, amount: 1, out var events))
            FramesRejected(logger, events.Count, reason, period);
    }

    public static void HandlerFailed(ILogger logger, LogThrottle throttle, int messages, Exception exception)
    {
        if (throttle.TryBegin(207, string.Empty, amount: 1, out var events))
            HandlerFailed(logger, messages, events.Count, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    [LoggerMessage(200, LogLevel.Warning, "The next hop failed to take {Batches} received batches, {Failures} consecutive times; the next try is in {Delay}. {Cause}")]
    private static partial void NextHopFailed(ILogger logger, int batches, int failures, TimeSpan delay, string cause, Exception? exception);

    [LoggerMessage(201, LogLevel.Information, "The next hop took received batches again after {Failures} failures.")]
    private static partial void NextHopRecovered(ILogger logger, int failures);

    [LoggerMessage(202, LogLevel.Warning, "The next hop refused {Messages} received messages for good since the last such line; in the last frame it refused all messages of {Batches} batches. {Cause}")]
    private static partial void MessagesRefused(ILogger logger, long messages, int batches, string cause, Exception? exception);

    [LoggerMessage(203, LogLevel.Warning, "The next hop did not take {Batches} received batches with {Messages} messages within DeliveryTimeout ({DeliveryTimeout}); they were refused for good. Such refusals since the last such line: {Count}. {Cause}")]
    private static partial void BatchesGivenUp(ILogger logger, int batches, int messages, TimeSpan deliveryTimeout, long count, string cause, Exception? exception);

    [LoggerMessage(204, LogLevel.Warning, "A received frame of {Bytes} bytes can never be read and was dropped. Such frames since the last such line: {Count}. {Cause}")]
    private static partial void FrameDropped(ILogger logger, int bytes, long count, string cause, Exception? exception);

    [LoggerMessage(205, LogLevel.Warning, "The next hop failed at {Messages} received messages until their time was over (DeliveryTimeout {DeliveryTimeout}); they alone were refused for good. Such messages since the last such line: {Total}. {Cause}")]
    private static partial void MessagesGivenUp(ILogger logger, int messages, TimeSpan deliveryTimeout, long total, string cause, Exception? exception);

    [LoggerMessage(206, LogLevel.Warning, "{Frames} received frames were rejected and dropped, the last because {Reason}; further ones are reported once in {Period}.")]
    private static partial void FramesRejected(ILogger logger, long frames, string reason, TimeSpan period);

    [LoggerMessage(207, LogLevel.Warning, "The handler failed for a batch of {Messages} received messages and gets each again alone. Such failures since the last such line: {Count}. {Cause}")]
    private static partial void HandlerFailed(ILogger logger, int messages, long count, string cause, Exception? exception);
}
