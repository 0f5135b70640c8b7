using BatchKit.Diagnostics;
using BatchKit.Postgres.Frames;

namespace BatchKit.Postgres.Receiving;

/// <summary>Passes a claim's messages to the handler, and marks those that a failed or cancelled handler left unmarked.</summary>
internal sealed class BatchRunner(ReceiverParts parts, IMessageHandler<QueueMessage> handler)
{
    // How long a cancelled handler may take to end. After that all its messages are given back, including those that it has handled. It is half of the time that a stop has left, and longer than the pauses of a
    // busy machine.
    private static readonly TimeSpan CancelledHandlerTime = TimeSpan.FromSeconds(1);

    // A frame contains the trace of its send, and its own handler starts a span.
    private readonly bool _areFrames = handler is FrameHandler or OutboxHandler;
    private readonly ObserverFaults _faults = GuardedLogger.Of(parts.Logger).Faults;

    public async ValueTask RunAsync(HeldClaim held)
    {
        if (held.Claim.Readable is not { } batch)
            return;
        if (parts.Stop.Stopping.IsCancellationRequested)
        {
            MarkRest(batch, static message => message.Release());
            return;
        }

        parts.Counters.Handling(batch.Count);
        using var span = _areFrames || !BatchKitTracing.IsListening ? null : DeliverySpan.Start("postgresql", parts.Options.Queue, batch.Count, batch.Select(static message => message.Trace), _faults);
        try
        {
            await HandleAsync(held, batch).ConfigureAwait(false);
        }
        catch (Exception exception) when (held.Token.IsCancellationRequested || (exception is OperationCanceledException && parts.Stop.Stopping.IsCancellationRequested))
        {
            // The handler was cancelled and ended.
            MarkRest(batch, static message => message.Release());
        }
        catch (MessageRefusedException exception) when (batch.Count == 1)
        {
            MarkRest(batch, message => message.Refuse(FailureText.MessageOf(exception)));
            span?.Fail(exception);
        }
        catch (Exception exception)
        {
            var reason = FailureText.Describe(exception);
            MarkRest(batch, message => message.Retry(reason));
            span?.Fail(exception);
            if (parts.Counters.Failed())
                Log.HandlerFailed(parts.Logger, exception, parts.Options.Queue, batch.Count);
        }
        finally
        {
            parts.Counters.Handling(-batch.Count);
        }
    }

    private static void MarkRest(QueueBatch batch, Action<QueueMessage> mark)
    {
        for (var index = 0; index < batch.Count; index++)
        {
            if (batch[index].Outcome is null)
                mark(batch[index]);
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

    // False when the handler still runs although the stop has cancelled it.
    private async ValueTask<bool> EndsAsync(Task handling, CancellationToken cancellationToken)
    {
        await handling.WaitAsync(parts.Stop.Abandoning).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (handling.IsCompleted)
            return true;
        await handling.WaitAsync(CancelledHandlerTime, parts.TimeProvider, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return handling.IsCompleted || !cancellationToken.IsCancellationRequested;
    }
}
