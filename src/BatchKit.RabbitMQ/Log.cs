using Microsoft.Extensions.Logging;

namespace BatchKit.RabbitMQ;

/// <summary>The log messages of this package; ids start at 2100.</summary>
internal static partial class Log
{
    [LoggerMessage(2103, LogLevel.Warning, "{Target} stopped accepting messages: {Reason}.")]
    public static partial void Blocked(ILogger logger, string target, string reason);

    [LoggerMessage(2104, LogLevel.Information, "{Target} accepts messages again.")]
    public static partial void Unblocked(ILogger logger, string target);

    [LoggerMessage(2105, LogLevel.Warning, "Exchange {Exchange} of {Target} was deleted. The sender declares it again, and holds back output for groups for {Limit}, so that receivers can bind their queues again.")]
    public static partial void ExchangeMissing(ILogger logger, string exchange, string target, TimeSpan limit);

    [LoggerMessage(2106, LogLevel.Information, "Output for groups goes to all nodes, because the broker does not allow the sender to see their bindings: {Reason}.")]
    public static partial void GroupsGoToAll(ILogger logger, string reason);

    [LoggerMessage(2116, LogLevel.Information, "Queue {Queue} gets the output of all groups, because the broker does not allow the receiver to bind single ones: {Reason}.")]
    public static partial void GroupsNotBound(ILogger logger, string queue, string reason);
}
