using BatchKit.Transports;

namespace BatchKit.Postgres.Frames;

/// <summary>Passes the frames of a queue, in order, to a <see cref="BatchReceiver"/>.</summary>
/// <remarks>One batch at a time, because the receiver takes one frame at a time.</remarks>
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
            // The worker that claims them next begins where this one stopped.
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

/// <summary>Serializes the handling of batches: a handler whose claim was lost may still run when the next batch arrives. Thread-safe.</summary>
internal sealed class HandlerTurns
{
    // Guards the task that the next batch waits for.
    private readonly Lock _gate = new();
    private Task _earlier = Task.CompletedTask;

    /// <summary>Takes the next turn. The caller awaits <c>Earlier</c> before it begins, and always completes <c>Ended</c>.</summary>
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
