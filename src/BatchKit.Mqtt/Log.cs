using BatchKit.Diagnostics;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Mqtt;

/// <summary>The log messages of this package; ids start at 2400. What a publisher can repeat without end is logged at most once a minute, with its count.</summary>
internal static partial class Log
{
    [LoggerMessage(2403, LogLevel.Error, "The {Purpose}'s session at {Target} was taken over by another connection with the same client id.")]
    public static partial void SessionTakenOver(ILogger logger, string purpose, string target);

    [LoggerMessage(2404, LogLevel.Error, "The {Purpose} failed unexpectedly; its connection was closed and will be opened again.")]
    public static partial void ServingFailed(ILogger logger, Exception exception, string purpose);

    [LoggerMessage(2405, LogLevel.Error,
        "The {Purpose}'s connections to {Target} were closed {Count} consecutive times, soon after they were accepted and without a reason: another connection may have the same client id, or the broker is restarted.")]
    public static partial void EndedAgain(ILogger logger, string purpose, string target, int count);

    [LoggerMessage(2406, LogLevel.Error, "The {Purpose} can't go on: {Target} broke the protocol on {Count} consecutive connections, in a way that can't be skipped. {Reason}")]
    public static partial void ProtocolBrokenAgain(ILogger logger, string purpose, string target, int count, string reason);

    [LoggerMessage(2441, LogLevel.Error, "{Target} refused the subscription {Filter}: {Reason}")]
    public static partial void SubscriptionRefused(ILogger logger, string filter, string target, string reason);

    [LoggerMessage(2442, LogLevel.Warning, "{Target} granted only QoS 0 to the subscription {Filter}: messages in flight are lost when the connection is lost.")]
    public static partial void SubscriptionLowered(ILogger logger, string filter, string target);

    [LoggerMessage(2443, LogLevel.Warning, "{Target} keeps the receiver's session for {Granted} after the connection is lost, and not for SessionExpiry ({Asked}): what comes while the receiver is away for longer is lost.")]
    public static partial void SessionExpiryLowered(ILogger logger, string target, TimeSpan granted, TimeSpan asked);

    public static void MessageDropped(ReceiverLog log, Exception exception, string topic, int bytes)
    {
        if (log.Throttle.TryBegin(2445, string.Empty, amount: 1, out var events))
            MessageDropped(log.Logger, bytes, topic, events.Count, FailureText.Describe(exception));
    }

    public static void MessageOmitted(ReceiverLog log, string topic, int bytes)
    {
        if (log.Throttle.TryBegin(2448, string.Empty, amount: 1, out var events))
            MessageOmitted(log.Logger, bytes, topic, events.Count);
    }

    public static void MessageSkipped(ReceiverLog log, int bytes, string topic, Exception exception)
    {
        if (log.Throttle.TryBegin(2449, string.Empty, amount: 1, out var events))
            MessageSkipped(log.Logger, bytes, topic, events.Count, FailureText.MessageOf(exception));
    }

    [LoggerMessage(2445, LogLevel.Warning, "A message of {Bytes} bytes for the topic {Topic} was refused and dropped, because it exceeds the receiver's frame limits. Such messages since the last such line: {Count}. {Cause}")]
    private static partial void MessageDropped(ILogger logger, int bytes, string topic, long count, string cause);

    [LoggerMessage(2446, LogLevel.Error, "{Reason}")]
    public static partial void NodeTaken(ILogger logger, string reason);

    [LoggerMessage(2448, LogLevel.Warning, "A message of {Bytes} bytes for the topic {Topic} was acknowledged and dropped, because its packet is larger than MqttOptions.MaxPacketBytes. Such messages since the last such line: {Count}.")]
    private static partial void MessageOmitted(ILogger logger, int bytes, string topic, long count);

    [LoggerMessage(2449, LogLevel.Warning, "A PUBLISH of {Bytes} bytes for the topic {Topic} was skipped, because it breaks the protocol. Such messages since the last such line: {Count}. {Reason}")]
    private static partial void MessageSkipped(ILogger logger, int bytes, string topic, long count, string reason);

    [LoggerMessage(2447, LogLevel.Warning, "{Reason}")]
    public static partial void NodeNotLeased(ILogger logger, string reason);
}
