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

/// <summary>Lets one batch be handled at a time, in the order of their coming: the handler whose claim was lost may not have ended when the next one begins. Any thread.</summary>
internal sealed class HandlerTurns
{
    // Guards the task behind which the next batch waits.
    private readonly Lock _gate = new();
    private Task _earlier = Task.CompletedTask;

    /// <summary>Queues up: wait for the first, and complete the second, whatever happens.</summary>
    public (Task Earlier, TaskCompletionSource Ended) Join()
    {
        var ended = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        lock (_gate)
        {
            var earlier = _earlier;
            _earlier = Task.WhenAll(earlier, ended.Task);
            return (earlier, ended);
        }
    }
}
