using Microsoft.Extensions.Logging;

namespace BatchKit.MassTransit;

/// <summary>The log messages of this package; ids start at 2200.</summary>
internal static partial class Log
{
    [LoggerMessage(2201, LogLevel.Warning, "The bus to {Target} could not start. BatchKit starts it again.")]
    public static partial void BusStartFailed(ILogger logger, Exception exception, string target);

    [LoggerMessage(2202, LogLevel.Warning, "The bus to {Target} failed while it stopped.")]
    public static partial void BusStopFailed(ILogger logger, Exception exception, string target);

    [LoggerMessage(2216, LogLevel.Warning, "MassTransit's endpoint of queue {Queue} did not stop within {Limit}. The stop goes on without it.")]
    public static partial void EndpointRemains(ILogger logger, string queue, TimeSpan limit);
}
