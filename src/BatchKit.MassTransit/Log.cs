using Microsoft.Extensions.Logging;

namespace BatchKit.MassTransit;

/// <summary>The log messages of this package; ids start at 2200.</summary>
internal static partial class Log
{
    [LoggerMessage(2200, LogLevel.Information, "The bus to {Target} started.")]
    public static partial void BusStarted(ILogger logger, string target);

    [LoggerMessage(2201, LogLevel.Warning, "The bus to {Target} could not start. BatchKit starts it again.")]
    public static partial void BusStartFailed(ILogger logger, Exception exception, string target);

    [LoggerMessage(2202, LogLevel.Warning, "The bus to {Target} failed while it stopped.")]
    public static partial void BusStopFailed(ILogger logger, Exception exception, string target);

    [LoggerMessage(2210, LogLevel.Information, "Receiving from queue {Queue}.")]
    public static partial void Receiving(ILogger logger, string queue);

    [LoggerMessage(2211, LogLevel.Warning, "Receiving from queue {Queue} was interrupted: {Reason} It is retried.")]
    public static partial void ReceivingInterrupted(ILogger logger, string queue, string reason);

    [LoggerMessage(2212, LogLevel.Warning, "A malformed frame of {Bytes} bytes was dropped from queue {Queue}.")]
    public static partial void FrameRejected(ILogger logger, Exception exception, int bytes, string queue);

    [LoggerMessage(2213, LogLevel.Error, "The next transport failed unexpectedly with a frame from queue {Queue}; the frame is received again.")]
    public static partial void FrameFailed(ILogger logger, Exception exception, string queue);

    [LoggerMessage(2215, LogLevel.Warning, "Queue {Queue} may receive no new frames: {Reason}")]
    public static partial void TopologyWrong(ILogger logger, string queue, string reason);

    [LoggerMessage(2216, LogLevel.Warning, "MassTransit's endpoint of queue {Queue} did not stop within {Limit}. The stop goes on without it.")]
    public static partial void EndpointRemains(ILogger logger, string queue, TimeSpan limit);

    [LoggerMessage(2217, LogLevel.Warning, "Could not connect to {Target}. BatchKit tries again until it can.")]
    public static partial void ConnectFailed(ILogger logger, Exception exception, string target);
}
