using BatchKit.Transports;

namespace BatchKit.Postgres.Frames;

/// <summary>Hands the frames of a queue, in order, to the next transport: the way back from rows to batches.</summary>
/// <remarks>One batch at a time, because a receiver takes a frame at a time.</remarks>
internal sealed class FrameHandler(BatchReceiver receiver) : IQueueHandler
{
    private readonly HandlerTurns _turns = new();

    public async ValueTask HandleAsync(QueueBatch batch, CancellationToken cancellationToken)
    {
        var (earlier, ended) = _turns.Join();
        var next = 0;
        try
        {
            await earlier.WaitAsync(cancellationToken).ConfigureAwait(false);
            for (; next < batch.Count; next++)
                await ReceiveAsync(batch[next], cancellationToken).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (cancellationToken.IsCancellationRequested)
        {
            // Whoever claims them next begins where this one stopped.
            for (; next < batch.Count; next++)
                batch[next].Release();
        }
        finally
        {
            ended.SetResult();
        }
    }

    private async ValueTask ReceiveAsync(QueueMessage message, CancellationToken cancellationToken)
    {
        try
        {
            await receiver.ReceiveAsync(message.Payload, cancellationToken).ConfigureAwait(false);
            message.Complete();
        }
        catch (FrameFormatException exception)
        {
            message.Bury(exception.Message);
        }
    }
}
