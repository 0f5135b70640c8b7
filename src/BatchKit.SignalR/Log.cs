using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.SignalR;

/// <summary>The log messages of this package; ids start at 2800. An event that clients can repeat is logged at most once a minute, with its count.</summary>
internal static partial class Log
{
    public static void ClientCut(ILogger logger, LogThrottle throttle, string connection, int limit)
    {
        if (throttle.TryBegin(2800, string.Empty, amount: 1, out var events))
            ClientCut(logger, connection, limit, events.Count);
    }

    public static void ProtocolMissing(ILogger logger, LogThrottle throttle, string protocol, int messages)
    {
        if (throttle.TryBegin(2801, protocol, messages, out var events))
            ProtocolMissing(logger, events.Amount, protocol);
    }

    public static void NotEncoded(ILogger logger, LogThrottle throttle, string protocol, Exception error)
    {
        if (throttle.TryBegin(2802, protocol, amount: 1, out var events))
            NotEncoded(logger, protocol, FailureText.MessageOf(error), events.Count);
    }

    [LoggerMessage(2800, LogLevel.Warning, "The connection {Connection} was aborted: its client does not read, and more than SignalROptions.MaxQueuedBytes ({Limit}) waited for it. It was one of {Count} since the last such message.")]
    private static partial void ClientCut(ILogger logger, string connection, int limit, long count);

    [LoggerMessage(2801, LogLevel.Warning, "{Messages} messages did not reach the clients with the protocol {Protocol}: the server that sent them does not have it, or could not encode them in it. Add the protocol on all servers, and see log 2802 of that server.")]
    private static partial void ProtocolMissing(ILogger logger, long messages, string protocol);

    [LoggerMessage(2802, LogLevel.Warning, "A message is left out for the clients with the protocol {Protocol}, which could not encode it: {Error} It was one of {Count} since the last such message.")]
    private static partial void NotEncoded(ILogger logger, string protocol, string error, long count);
}
