using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

/// <summary>What a receiver logs; event ids from 200.</summary>
internal static partial class ReceiverLog
{
    [LoggerMessage(200, LogLevel.Warning, "The next hop failed to take {Batches} received batches, {Failures} times in a row; the next try is in {Delay}.")]
    public static partial void NextHopFailed(ILogger logger, int batches, int failures, TimeSpan delay, Exception exception);

    [LoggerMessage(201, LogLevel.Information, "The next hop took received batches again after {Failures} failures.")]
    public static partial void NextHopRecovered(ILogger logger, int failures);

    [LoggerMessage(202, LogLevel.Warning, "The next hop refused {Messages} received messages for good, among them all messages of {Batches} batches.")]
    public static partial void MessagesRefused(ILogger logger, int messages, int batches, Exception exception);
}
