using System.Net;
using Microsoft.Extensions.Logging;

namespace BatchKit.Broadcast;

/// <summary>The log messages of this package; ids from 2300.</summary>
internal static partial class Log
{
    [LoggerMessage(2300, LogLevel.Information, "Listening for {Protocol} clients on {EndPoint}.")]
    public static partial void Listening(ILogger logger, ClientProtocol protocol, EndPoint? endPoint);

    [LoggerMessage(2301, LogLevel.Warning, "A client could not be accepted on {EndPoint}; the listener goes on.")]
    public static partial void AcceptFailed(ILogger logger, Exception exception, EndPoint? endPoint);

    [LoggerMessage(2302, LogLevel.Debug, "A client was turned away: {Reason}.")]
    public static partial void TurnedAway(ILogger logger, string reason);

    [LoggerMessage(2303, LogLevel.Debug, "A client from {Address} did not establish its connection: {Reason}.")]
    public static partial void HandshakeFailed(ILogger logger, EndPoint? address, string reason);

    [LoggerMessage(2304, LogLevel.Error, "The handler of {Connection} failed; its client was disconnected.")]
    public static partial void HandlerFailed(ILogger logger, Exception exception, ClientConnection connection);

    [LoggerMessage(2305, LogLevel.Debug, "{Connection} broke its protocol: {Reason}.")]
    public static partial void ProtocolBroken(ILogger logger, ClientConnection connection, string reason);

    [LoggerMessage(2306, LogLevel.Warning, "{Clients} clients were disconnected in the last {Period}, because they did not read, were idle, or were not authenticated in time.")]
    public static partial void ClientsSwept(ILogger logger, int clients, TimeSpan period);

    [LoggerMessage(2307, LogLevel.Information, "All {Clients} clients read their queued output and were closed.")]
    public static partial void Drained(ILogger logger, int clients);

    [LoggerMessage(2308, LogLevel.Warning, "{Clients} of {Total} clients did not read their queued output within {Limit}; the rest was dropped.")]
    public static partial void DrainTimedOut(ILogger logger, int clients, int total, TimeSpan limit);

    [LoggerMessage(2330, LogLevel.Debug, "Output for {Handle} goes directly to its socket.")]
    public static partial void WritesDirectly(ILogger logger, OutputHandle handle);

    [LoggerMessage(2331, LogLevel.Debug, "Output for {Handle} goes through the server's stream: {Reason}.")]
    public static partial void WritesToStream(ILogger logger, OutputHandle handle, string reason);
}
