using BatchKit.Diagnostics;
using BatchKit.Mqtt.Packets;
using BatchKit.Transports;

namespace BatchKit.Mqtt.Publishing;

/// <summary>Publishes a send as frames. Each frame is the payload of one QoS 1 message to the topic of a node or of all nodes; those that share a receiver go in turn.</summary>
/// <param name="publisher">Publishes the frames in order, and again after a lost connection; receivers drop duplicates.</param>
/// <param name="options">The settings.</param>
/// <param name="target">A human-readable form of the broker's address, without secrets.</param>
/// <param name="brokersMaxPacketBytes">Returns the broker's limit; <see cref="uint.MaxValue"/> until it is known.</param>
/// <param name="signer">Signs the frames; null for none.</param>
internal sealed class EnvelopePublisher(IMqttPublisher publisher, MqttOptions options, string target, Func<uint> brokersMaxPacketBytes, FrameSigner? signer = null)
{
    // The bytes of a PUBLISH besides topic and payload: header, topic length, packet id, an empty list of properties.
    private const int PacketOverheadBytes = 16;

    // A packet may have more, but a receiver takes no more as one frame.
    private static readonly int MostFrameBytes = new FrameLimits().MaxFrameBytes;

    private readonly string _prefix = options.EnvelopePrefix!;

    public int MaxBatchBytes => FindMaxFrameBytes() - FrameWriter.OverheadBytes;

    public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        var frames = FramePlan.Create(batches, FindMaxFrameBytes(), options.DestinationNode, signer);
        try
        {
            var results = frames.Count == 1
                ? await PublishAsync([frames[0]], cancellationToken).ConfigureAwait(false)
                : await FrameTurns.PublishAsync(frames, run => PublishAsync(run, cancellationToken), HoldUp).ConfigureAwait(false);
            if (!Array.TrueForAll(results, static result => result.Outcome == FrameOutcome.Acknowledged))
                throw FrameReport.ToException(target, frames, results, batches.Length);
        }
        catch (OperationCanceledException canceled) when (canceled.InnerException is IOException noConnection)
        {
            throw new IOException(FailureText.MessageOf(noConnection), canceled);
        }
    }

    /// <summary>The largest frame that fits in a packet.</summary>
    public static int MaxFrameBytes(long maxPacketBytes, string prefix) =>
        (int)Math.Clamp(Math.Min(maxPacketBytes, int.MaxValue) - PacketOverheadBytes - MaxTopicBytes(prefix), 1, MostFrameBytes);

    private static int MaxTopicBytes(string prefix) => System.Text.Encoding.UTF8.GetByteCount(EnvelopeTopics.Node(prefix, OutputHandle.MaxNode));

    private int FindMaxFrameBytes() => MaxFrameBytes(Math.Min(options.MaxPacketBytes, brokersMaxPacketBytes()), _prefix);

    // Set explicitly, so that a topic rule for other messages can't retain a frame, send it with QoS 0 or let it expire.
    private MqttMessage ToMessage(PlannedFrame frame, PooledFrame encoded) => new(EnvelopeTopics.Of(_prefix, frame.Destination), encoded.Bytes)
    {
        QualityOfService = MqttQualityOfService.AtLeastOnce,
        Retain = false,
        Expiry = TimeSpan.Zero,
    };

    private static FrameDestination? HoldUp(FrameDestination destination, FrameResult result) => result.Outcome == FrameOutcome.NotTaken ? destination : null;

    private async ValueTask<FrameResult[]> PublishAsync(PlannedFrame[] frames, CancellationToken cancellationToken)
    {
        var messages = new MqttMessage[frames.Length];
        var encoded = new PooledFrame[frames.Length];
        var count = 0;
        try
        {
            for (; count < encoded.Length; count++)
            {
                encoded[count] = frames[count].Encode(signer);
                messages[count] = ToMessage(frames[count], encoded[count]);
            }

            var report = await publisher.PublishManyAsync(messages, cancellationToken).ConfigureAwait(false);
            return [.. frames.Select((frame, index) => ToResult(frame, report[index]))];
        }
        finally
        {
            foreach (var frame in encoded.AsSpan(0, count))
                frame.Dispose();
        }
    }

    private static FrameResult ToResult(PlannedFrame frame, MqttPublishResult result)
    {
        if (result.IsSuccess)
            return new FrameResult(FrameOutcome.Acknowledged);
        var reason = result.Reason ?? $"It answered {result.ReasonCode} to a frame for {frame.Destination}.";
        return new FrameResult(IsFinal(frame, result.ReasonCode) ? FrameOutcome.Refused : FrameOutcome.NotTaken, reason);
    }

    private static bool IsFinal(PlannedFrame frame, MqttReasonCode reasonCode) => reasonCode switch
    {
        // The broker's limit is unknown until the first connect. A frame of several batches is split into smaller frames when it is sent again.
        MqttReasonCode.PacketTooLarge => frame.Batches.Length == 1,
        _ => !ReasonTable.IsTransient((int)reasonCode),
    };
}
