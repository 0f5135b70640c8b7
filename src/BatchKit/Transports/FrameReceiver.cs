using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

/// <summary>Receives frames from any broker: your code hands in each frame's bytes, and acknowledges it to the broker when the task has completed.</summary>
/// <remarks>
/// A frame that can never be read is counted, logged and dropped: its task completes, because a broker that is not acknowledged would deliver it for ever.
/// To keep such frames, for example in a dead-letter queue, use <see cref="BatchReceiver"/>, which throws. Hand in the frames of one queue in their order, one at a time.
/// </remarks>
public sealed class FrameReceiver
{
    private readonly BatchReceiver _receiver;
    private readonly ReceiverLog _log;

    /// <summary>Creates a receiver.</summary>
    /// <param name="receiver">Drops repeats, and hands batches to the next hop. It belongs to this receiver alone.</param>
    /// <param name="logger">Gets a warning for each frame that is dropped.</param>
    public FrameReceiver(BatchReceiver receiver, ILogger<FrameReceiver>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(receiver);
        _receiver = receiver;
        _log = new ReceiverLog(GuardedLogger.Of(logger), receiver.TimeProvider);
    }

    /// <summary>Receives one frame. Completing means: acknowledge it to the broker.</summary>
    /// <param name="frame">The frame; it must stay unchanged until the task has ended.</param>
    /// <param name="cancellationToken">Ends the delivery. Do not acknowledge the frame then, so that the broker delivers it again.</param>
    /// <exception cref="InvalidOperationException">Another frame is still being received.</exception>
    /// <exception cref="OperationCanceledException">It was cancelled before the next hop had everything.</exception>
    public async ValueTask ReceiveAsync(ReadOnlyMemory<byte> frame, CancellationToken cancellationToken)
    {
        try
        {
            await _receiver.ReceiveAsync(frame, cancellationToken).ConfigureAwait(false);
        }
        catch (FrameFormatException exception)
        {
            _log.FrameUnreadable(frame.Length, exception);
        }
    }

    /// <summary>Reads the counters. Call it at any time and from any thread. <see cref="BatchReceiverStatistics.MalformedFrames"/> counts the frames that were dropped.</summary>
    public BatchReceiverStatistics GetStatistics() => _receiver.GetStatistics();
}
