namespace BatchKit.Postgres.Receiving;

/// <summary>Has one claim's messages handled, and sees to it that something is said of each when the handler did not.</summary>
internal sealed class BatchRunner(ReceiverParts parts, IQueueHandler handler)
{
    // Time for a cancelled handler to end by itself, before its messages are given back over its head, what it has done among them: half of the stop's time for that, and more than a pause of a busy machine.
    private static readonly TimeSpan CancelledHandlerTime = TimeSpan.FromSeconds(1);

    public async ValueTask RunAsync(HeldClaim held)
    {
        var batch = held.Claim.Batch;
        if (parts.Stop.Stopping.IsCancellationRequested)
        {
            Say(batch, static message => message.Release());
            return;
        }

        parts.Counters.Handling(batch.Count);
        try
        {
            await HandleAsync(held, batch).ConfigureAwait(false);
        }
        catch (Exception exception) when (held.Token.IsCancellationRequested || (exception is OperationCanceledException && parts.Stop.Stopping.IsCancellationRequested))
        {
            // It was told to stop, and did.
            Say(batch, static message => message.Release());
        }
        catch (Exception exception)
        {
            var reason = $"{exception.GetType().Name}: {exception.Message}";
            Say(batch, message => message.Retry(reason));
            if (parts.Counters.Failed())
                Log.HandlerFailed(parts.Logger, exception, parts.Options.Queue, batch.Count);
        }
        finally
        {
            parts.Counters.Handling(-batch.Count);
        }
    }

    private static void Say(QueueBatch batch, Action<QueueMessage> say)
    {
        for (var index = 0; index < batch.Count; index++)
        {
            if (batch[index].Outcome is null)
                say(batch[index]);
        }
    }

    private async ValueTask HandleAsync(HeldClaim held, QueueBatch batch)
    {
        var handling = handler.HandleAsync(batch, held.Token);
        if (!handling.IsCompletedSuccessfully)
        {
            var task = handling.AsTask();
            if (!task.IsCompleted && !await EndsAsync(task, held.Token).ConfigureAwait(false))
            {
                Log.HandlerAbandoned(parts.Logger, parts.Options.Queue, batch.Count);
                held.ReleaseAll();
                return;
            }

            await task.ConfigureAwait(false);
        }

        parts.Counters.Succeeded();
    }

    // False for one that was cancelled because the stop waits no longer, and goes on all the same.
    private async ValueTask<bool> EndsAsync(Task handling, CancellationToken cancellationToken)
    {
        await handling.WaitAsync(parts.Stop.Abandoning).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (handling.IsCompleted)
            return true;
        await handling.WaitAsync(CancelledHandlerTime, parts.TimeProvider, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return handling.IsCompleted || !cancellationToken.IsCancellationRequested;
    }
}
