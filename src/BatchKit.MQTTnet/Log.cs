using Microsoft.Extensions.Logging;

namespace BatchKit.MQTTnet;

/// <summary>What this package logs; ids from 2500.</summary>
internal static partial class Log
{
    [LoggerMessage(2500, LogLevel.Debug, "The MQTT client connected: at most {Window} publishes at once, packets of at most {MaxPacketBytes} bytes.")]
    public static partial void ClientConnected(ILogger logger, int window, uint maxPacketBytes);

    [LoggerMessage(2501, LogLevel.Information, "The broker's limit of {ReceiveMaximum} unacknowledged publishes is below the window of {Window}, and holds.")]
    public static partial void WindowLimited(ILogger logger, int receiveMaximum, int window);

    [LoggerMessage(2510, LogLevel.Warning,
        "The subscriber '{ClientId}' made no room for {MinRoom} messages within {SlowSubscriberTimeout}: it is not waited for, and the server drops what it has no room for.")]
    public static partial void SubscriberGivenUp(ILogger logger, string clientId, int minRoom, TimeSpan slowSubscriberTimeout);

    [LoggerMessage(2511, LogLevel.Information, "The subscriber '{ClientId}' reads again and is waited for. The server has dropped {DroppedMessages} messages for all subscribers so far.")]
    public static partial void SubscriberReads(ILogger logger, string clientId, long droppedMessages);
}
