using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

/// <summary>What each adapter logs of its connections, below the category of the type that has one: ids from 220.</summary>
/// <remarks>Defined by hand, as in <see cref="ReceiverLog"/>: a package with two generated classes could not be built again to the same bytes.</remarks>
internal static class ConnectionLog
{
    private static readonly Action<ILogger, string, string, Exception?> ConnectedMessage = LoggerMessage.Define<string, string>(
        LogLevel.Information, new EventId(220, nameof(Connected)), "The {Purpose} connected to {Target}.");

    private static readonly Action<ILogger, string, string, Exception?> FailedMessage = LoggerMessage.Define<string, string>(
        LogLevel.Warning, new EventId(221, nameof(Failed)), "The {Purpose} could not connect, and tries again: {Reason}");

    private static readonly Action<ILogger, string, string, string, Exception?> LostMessage = LoggerMessage.Define<string, string, string>(
        LogLevel.Warning, new EventId(222, nameof(Lost)), "The {Purpose} lost its connection to {Target}, and connects again: {Reason}");

    public static void Connected(ILogger logger, string purpose, string target) => ConnectedMessage(logger, purpose, target, null);

    public static void Failed(ILogger logger, string purpose, string reason) => FailedMessage(logger, purpose, reason, null);

    public static void Lost(ILogger logger, string purpose, string target, string reason) => LostMessage(logger, purpose, target, reason, null);
}

/// <summary>What each receiver logs, below its own category: 204, and ids from 210. What a stranger or a slow next hop can repeat without end is logged at most once a minute, with its count.</summary>
/// <remarks>Thread-safe.</remarks>
internal sealed class ReceiverLog(GuardedLogger logger, TimeProvider timeProvider)
{
    private static readonly Action<ILogger, int, long, string, Exception?> UnreadableMessage = LoggerMessage.Define<int, long, string>(
        LogLevel.Warning, new EventId(204, nameof(FrameUnreadable)), "A received frame of {Bytes} bytes is not readable and was dropped. Such frames since the last such line: {Count}. {Cause}");

    private static readonly Action<ILogger, string, TimeSpan, Exception?> AbandonedMessage = LoggerMessage.Define<string, TimeSpan>(
        LogLevel.Warning, new EventId(210, nameof(FrameAbandoned)), "The receiver of {Source} stopped without finishing what it had in hand within StopTimeout ({Limit}).");

    private static readonly Action<ILogger, string, TimeSpan, Exception?> RemainsMessage = LoggerMessage.Define<string, TimeSpan>(
        LogLevel.Error, new EventId(211, nameof(HopRemains)), "The next hop of the receiver of {Source} did not end within {Limit} although its send was cancelled. The receiver stopped without it.");

    private static readonly Action<ILogger, string, string, Exception?> ReceivingMessage = LoggerMessage.Define<string, string>(
        LogLevel.Information, new EventId(212, nameof(Receiving)), "Receiving from {Source} at {Target}.");

    private static readonly Action<ILogger, string, string, Exception?> EndedMessage = LoggerMessage.Define<string, string>(
        LogLevel.Warning, new EventId(213, nameof(Ended)), "Receiving from {Source} ended, and is tried again: {Reason}");

    private static readonly Action<ILogger, string, string, Exception?> ImpairedMessage = LoggerMessage.Define<string, string>(
        LogLevel.Warning, new EventId(214, nameof(Impaired)), "The receiver of {Source} may get no new frames: {Reason}");

    private static readonly Action<ILogger, string, long, string, Exception?> BrokeMessage = LoggerMessage.Define<string, long, string>(
        LogLevel.Error, new EventId(215, nameof(DeliveryBroke)), "The next hop failed unexpectedly with a frame from {Source}; the broker delivers it again. Such failures since the last such line: {Count}. {Cause}");

    private static readonly Action<ILogger, long, string, int, Exception?> DroppedMessage = LoggerMessage.Define<long, string, int>(
        LogLevel.Warning, new EventId(216, nameof(FramesDropped)), "{Count} received frames were dropped, because more than {Setting} ({Limit}) waited for the next hop.");

    private volatile string? _ended;

    /// <summary>Gets what an adapter logs beside.</summary>
    public GuardedLogger Logger => logger;

    /// <summary>Limits what else can be repeated without end.</summary>
    public LogThrottle Throttle { get; } = new(timeProvider);

    public void FrameUnreadable(int bytes, FrameFormatException exception)
    {
        if (Throttle.TryBegin(204, string.Empty, amount: 1, out var events))
            UnreadableMessage(logger, bytes, events.Count, FailureText.Describe(exception), events.TraceOf(exception));
    }

    public void FrameAbandoned(string source, TimeSpan limit) => AbandonedMessage(logger, source, limit, null);

    public void HopRemains(string source, TimeSpan limit) => RemainsMessage(logger, source, limit, null);

    public void Receiving(string source, string target)
    {
        _ended = null;
        ReceivingMessage(logger, source, target, null);
    }

    /// <summary>It receives nothing. A reason that repeats is logged once.</summary>
    public void Ended(string source, string reason)
    {
        if (Interlocked.Exchange(ref _ended, reason) != reason)
            EndedMessage(logger, source, reason, null);
    }

    /// <summary>It receives, or seems to, and something of its topology is wrong.</summary>
    public void Impaired(string source, string reason) => ImpairedMessage(logger, source, reason, null);

    public void DeliveryBroke(string source, Exception exception)
    {
        if (Throttle.TryBegin(215, string.Empty, amount: 1, out var events))
            BrokeMessage(logger, source, events.Count, FailureText.Describe(exception), events.TraceOf(exception));
    }

    public void FramesDropped(string setting, int limit)
    {
        if (Throttle.TryBegin(216, string.Empty, amount: 1, out var events))
            DroppedMessage(logger, events.Count, setting, limit, null);
    }
}
