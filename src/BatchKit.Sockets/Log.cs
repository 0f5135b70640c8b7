using System.Net;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast;

/// <summary>The log messages of this package; ids from 2300. An event that clients can repeat is logged at most once a period, with its count; only Debug logs each one.</summary>
internal static partial class Log
{
    public static void AcceptFailed(ILogger logger, LogThrottle throttle, Exception exception, EndPoint endPoint)
    {
        if (throttle.TryBegin(2301, $"{endPoint}", amount: 1, out var events))
            AcceptFailed(logger, endPoint, events.Count, FailureText.Describe(exception), events.TraceOf(exception));
    }

    public static void HandshakeFailed(ILogger logger, LogThrottle throttle, EndPoint address, string reason)
    {
        if (throttle.TryBegin(2303, string.Empty, amount: 1, out var events))
            HandshakeFailed(logger, address, reason, events.Count);
    }

    public static void HandlerFailed(ILogger logger, LogThrottle throttle, Exception exception, ClientConnection connection)
    {
        if (throttle.TryBegin(2304, exception.GetType().Name, amount: 1, out var events))
            HandlerFailed(logger, connection, events.Count, FailureText.Describe(exception), events.TraceOf(exception));
    }

    public static void ClientsSwept(ILogger logger, LogThrottle throttle, int clients)
    {
        if (throttle.TryBegin(2306, string.Empty, clients, out var events))
            ClientsSwept(logger, events.Amount);
    }

    public static void ClientsTurnedAway(ILogger logger, LogThrottle throttle, BroadcastOptions options)
    {
        if (throttle.TryBegin(2309, string.Empty, amount: 1, out var events))
            ClientsTurnedAway(logger, events.Count, options.MaxConnections, options.PlacesPerAddress, options.MaxLingeringHandlers);
    }

    public static void StartsBlock(ILogger logger, LogThrottle throttle, int waiting)
    {
        if (throttle.TryBegin(2312, string.Empty, amount: 1, out _))
            StartsBlock(logger, waiting);
    }

    /// <param name="logger">The logger.</param>
    /// <param name="throttle">Limits the lines.</param>
    /// <param name="origin">The origin that the request named. A client wrote it, so only a short and printable one is logged.</param>
    public static void OriginRefused(ILogger logger, LogThrottle throttle, string origin)
    {
        const int maxLength = 100;
        if (throttle.TryBegin(2333, string.Empty, amount: 1, out var events))
            OriginRefused(logger, events.Count, origin.Length <= maxLength && !origin.AsSpan().ContainsAnyExceptInRange('!', '~') ? origin : "an odd origin");
    }

    [LoggerMessage(2300, LogLevel.Information, "Listening for {Protocol} clients on {EndPoint}.")]
    public static partial void Listening(ILogger logger, ClientProtocol protocol, EndPoint? endPoint);

    [LoggerMessage(2302, LogLevel.Debug, "A client was turned away: {Reason}.")]
    public static partial void TurnedAway(ILogger logger, string reason);

    [LoggerMessage(2305, LogLevel.Debug, "{Connection} broke its protocol: {Reason}.")]
    public static partial void ProtocolBroken(ILogger logger, ClientConnection connection, string reason);

    [LoggerMessage(2307, LogLevel.Information, "All {Clients} clients read their queued output and were closed.")]
    public static partial void Drained(ILogger logger, int clients);

    [LoggerMessage(2308, LogLevel.Warning, "{Clients} of {Total} clients did not read their queued output within {Limit}; the rest was dropped.")]
    public static partial void DrainTimedOut(ILogger logger, int clients, int total, TimeSpan limit);

    [LoggerMessage(2311, LogLevel.Warning, "{Clients} handlers still ran {Limit} after their listener was disposed; nothing waits for them.")]
    public static partial void HandlersLinger(ILogger logger, int clients, TimeSpan limit);

    [LoggerMessage(2312, LogLevel.Warning, "{Clients} accepted clients waited for a second and none was started: the handlers of others block their threads as they begin, or all threads of the pool are busy. Further threads start them. Await in StartAsync and ReceiveAsync.")]
    private static partial void StartsBlock(ILogger logger, int clients);

    [LoggerMessage(2310, LogLevel.Debug, "A client from {Address} left while its connection began or ended: {Reason}.")]
    public static partial void ClientLeft(ILogger logger, EndPoint? address, string reason);

    [LoggerMessage(2332, LogLevel.Warning, "The WebSocket endpoint {Pattern} accepts any host that a request names. Set its AllowedOrigins, or AllowedHosts in the configuration, so that a page with another name for this machine can't connect (DNS rebinding).")]
    public static partial void TrustsEveryHost(ILogger logger, string pattern);

    [LoggerMessage(2330, LogLevel.Debug, "Output for {Handle} goes directly to its socket.")]
    public static partial void WritesDirectly(ILogger logger, OutputHandle handle);

    [LoggerMessage(2331, LogLevel.Debug, "Output for {Handle} goes through the server's stream: {Reason}.")]
    public static partial void WritesToStream(ILogger logger, OutputHandle handle, string reason);

    [LoggerMessage(2301, LogLevel.Warning, "A client could not be accepted on {EndPoint}; the listener goes on. Failures since the last such line: {Count}. {Cause}")]
    private static partial void AcceptFailed(ILogger logger, EndPoint endPoint, long count, string cause, Exception? exception);

    [LoggerMessage(2303, LogLevel.Warning, "A client from {Address} did not establish its connection: {Reason}. Such clients since the last such line: {Count}.")]
    private static partial void HandshakeFailed(ILogger logger, EndPoint address, string reason, long count);

    [LoggerMessage(2309, LogLevel.Warning, "{Count} clients were turned away since the last such line: MaxConnections ({MaxConnections}), MaxConnectionsPerAddress ({MaxConnectionsPerAddress}) or MaxLingeringHandlers ({MaxLingeringHandlers}) is reached, or nearly all file handles of the process are open (ulimit -n).")]
    private static partial void ClientsTurnedAway(ILogger logger, long count, int maxConnections, int maxConnectionsPerAddress, int maxLingeringHandlers);

    [LoggerMessage(2333, LogLevel.Warning, "{Count} WebSocket requests from pages of other origins were refused since the last such line, the last from {Origin}. Pages that may connect must be in AllowedOrigins.")]
    private static partial void OriginRefused(ILogger logger, long count, string origin);

    [LoggerMessage(2304, LogLevel.Error, "The handler of {Connection} failed; its client was disconnected. Failures of this type since the last such line: {Count}. {Cause}")]
    private static partial void HandlerFailed(ILogger logger, ClientConnection connection, long count, string cause, Exception? exception);

    [LoggerMessage(2306, LogLevel.Warning, "{Clients} clients were disconnected since the last such line, because they did not read, were idle, or were not authenticated in time.")]
    private static partial void ClientsSwept(ILogger logger, long clients);
}
