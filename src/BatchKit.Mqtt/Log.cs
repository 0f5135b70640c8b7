using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt;

/// <summary>The log messages of this package; ids start at 2400.</summary>
internal static partial class Log
{
    [LoggerMessage(2400, LogLevel.Information, "The {Purpose} connected to {Target}.")]
    public static partial void Connected(ILogger logger, string purpose, string target);

    [LoggerMessage(2401, LogLevel.Warning, "The {Purpose} could not connect: {Reason}")]
    public static partial void ConnectFailed(ILogger logger, string purpose, string reason);

    [LoggerMessage(2402, LogLevel.Warning, "The {Purpose} lost its connection to {Target}: {Reason}")]
    public static partial void ConnectionLost(ILogger logger, string purpose, string target, string reason);

    [LoggerMessage(2403, LogLevel.Error, "The {Purpose}'s session at {Target} was taken over by another connection with the same client id.")]
    public static partial void SessionTakenOver(ILogger logger, string purpose, string target);

    [LoggerMessage(2404, LogLevel.Error, "The {Purpose} failed unexpectedly; its connection was closed and will be opened again.")]
    public static partial void ServingFailed(ILogger logger, Exception exception, string purpose);

    [LoggerMessage(2405, LogLevel.Error,
        "The {Purpose}'s connections to {Target} were closed {Count} consecutive times, soon after they were accepted and without a reason: another connection may have the same client id, or the broker is restarted.")]
    public static partial void EndedAgain(ILogger logger, string purpose, string target, int count);

    [LoggerMessage(2406, LogLevel.Error, "The {Purpose} can't go on: {Target} broke the protocol on {Count} consecutive connections, in a way that can't be skipped. {Reason}")]
    public static partial void ProtocolBrokenAgain(ILogger logger, string purpose, string target, int count, string reason);

    [LoggerMessage(2440, LogLevel.Information, "Receiving from {Target} with {Count} subscriptions.")]
    public static partial void Receiving(ILogger logger, int count, string target);

    [LoggerMessage(2441, LogLevel.Error, "{Target} refused the subscription {Filter}: {Reason}")]
    public static partial void SubscriptionRefused(ILogger logger, string filter, string target, string reason);

    [LoggerMessage(2442, LogLevel.Warning, "{Target} granted only QoS 0 to the subscription {Filter}: messages in flight are lost when the connection is lost.")]
    public static partial void SubscriptionLowered(ILogger logger, string filter, string target);

    [LoggerMessage(2443, LogLevel.Warning, "A message of {Bytes} bytes was refused and dropped, because it is not a frame that this version can read: {Reason}")]
    public static partial void FrameDropped(ILogger logger, int bytes, string reason);

    [LoggerMessage(2445, LogLevel.Warning, "A message of {Bytes} bytes for the topic {Topic} was refused and dropped, because it exceeds the receiver's frame limits.")]
    public static partial void MessageDropped(ILogger logger, Exception exception, string topic, int bytes);

    [LoggerMessage(2446, LogLevel.Error, "{Reason}")]
    public static partial void NodeTaken(ILogger logger, string reason);

    [LoggerMessage(2448, LogLevel.Warning, "A message of {Bytes} bytes for the topic {Topic} was acknowledged and dropped, because its packet is larger than MqttOptions.MaxPacketBytes.")]
    public static partial void MessageOmitted(ILogger logger, string topic, int bytes);

    [LoggerMessage(2449, LogLevel.Warning, "A PUBLISH of {Bytes} bytes for the topic {Topic} was skipped, because it breaks the protocol: {Reason}")]
    public static partial void MessageSkipped(ILogger logger, int bytes, string topic, string reason);

    [LoggerMessage(2447, LogLevel.Warning, "{Reason}")]
    public static partial void NodeNotLeased(ILogger logger, string reason);
}
