using Microsoft.Extensions.Logging;

namespace BatchKit.MQTTnet;

/// <summary>The log messages of this package; ids start at 2500.</summary>
internal static partial class Log
{
    [LoggerMessage(2500, LogLevel.Debug, "The MQTT client connected: at most {Window} concurrent publishes, packets of at most {MaxPacketBytes} bytes.")]
    public static partial void ClientConnected(ILogger logger, int window, uint maxPacketBytes);

    [LoggerMessage(2501, LogLevel.Information, "The broker's limit of {ReceiveMaximum} unacknowledged publishes is below the window of {Window} and replaces it.")]
    public static partial void WindowLimited(ILogger logger, int receiveMaximum, int window);

    [LoggerMessage(2502, LogLevel.Warning, "The ConnectionChanged callback of the MQTT client failed.")]
    public static partial void CallbackFailed(ILogger logger, Exception exception);

    [LoggerMessage(2503, LogLevel.Warning, "The application's MQTT client lost its connection to {Target}: {Reason} Sends are retried until the application has connected it again.")]
    public static partial void ClientLost(ILogger logger, string target, string reason);

    [LoggerMessage(2504, LogLevel.Information, "The application's MQTT client is connected to {Target} again.")]
    public static partial void ClientRestored(ILogger logger, string target);

    [LoggerMessage(2505, LogLevel.Information, "The application's MQTT client is no longer connected to {Target}: the broker closed the connection, or the application ended it. Sends are retried until the application has connected it again.")]
    public static partial void ClientEnded(ILogger logger, string target);

    [LoggerMessage(2510, LogLevel.Warning,
        "The queue of the subscriber '{ClientId}' had no capacity for {MinCapacity} messages within {SlowSubscriberTimeout}: sends no longer wait for it, and the server drops its messages when the queue is full.")]
    public static partial void SubscriberGivenUp(ILogger logger, string clientId, int minCapacity, TimeSpan slowSubscriberTimeout);

    [LoggerMessage(2511, LogLevel.Information, "The subscriber '{ClientId}' reads again, and sends wait for it again. So far the server has dropped {DroppedMessages} messages for all subscribers.")]
    public static partial void SubscriberReads(ILogger logger, string clientId, long droppedMessages);
}
