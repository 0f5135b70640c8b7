using BatchKit.Diagnostics;
using BatchKit.Postgres.Frames;

namespace BatchKit.Postgres.Receiving;

/// <summary>Passes a claim's messages to the handler, and marks those that a failed or cancelled handler left unmarked.</summary>
internal sealed class BatchRunner(ReceiverParts parts, IMessageHandler<QueueMessage> handler)
{
    // How long a cancelled handler may take to end. After that it is left, and its messages are given back, including those that it has handled. It is half of the time that a stop has left, and longer than the
    // pauses of a busy machine.
    private static readonly TimeSpan CancelledHandlerTime = TimeSpan.FromSeconds(1);

    // A frame contains the trace of its send, and its own handler starts a span.
    private readonly bool _areFrames = handler is FrameHandler or OutboxHandler;
    private readonly ObserverFaults _faults = GuardedLogger.Of(parts.Logger).Faults;
    private readonly LogThrottle _throttle = new(parts.TimeProvider);

    private string TimeLimit => $"{nameof(parts.Options.HandlerTimeLimit)} ({parts.Options.HandlerTimeLimit})";

    public async ValueTask RunAsync(HeldClaim held)
    {
        if (held.Claim.Readable is not { } batch)
            return;
        // A batch may have been claimed before that, or prefetched.
        if (parts.Stop.Stopping.IsCancellationRequested || !parts.Intake.IsOpen)
        {
            MarkRest(batch, static message => message.Release());
            return;
        }

        parts.Counters.Handling(batch.Count);
        using var span = _areFrames || !BatchKitTracing.IsListening ? null : DeliverySpan.Start("postgresql", parts.Options.Queue, batch.Count, batch.Select(static message => message.Trace), _faults);
        var began = parts.TimeProvider.GetTimestamp();
        held.HandlingSince = began;
        string? errorType = null;
        try
        {
            await HandleAsync(held, batch).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            if (HasFailed(held, batch, exception))
            {
                span?.Fail(exception);
                errorType = exception.GetType().FullName;
            }
        }
        finally
        {
            parts.Counters.Handling(-batch.Count);
            held.HandlingSince = null;
        }

        parts.Metrics?.RecordHandling(parts.TimeProvider.GetElapsedTime(began), held.IsTimedOut ? nameof(TimeoutException) : errorType);
    }

    // False when the handler was cancelled and ended.
    private bool HasFailed(HeldClaim held, QueueBatch batch, Exception exception)
    {
        if (held.IsTimedOut)
        {
            MarkLate(batch, exception is OperationCanceledException ? string.Empty : $" {FailureText.Describe(exception)}");
            return true;
        }

        if (held.Token.IsCancellationRequested || (exception is OperationCanceledException && parts.Stop.Stopping.IsCancellationRequested))
        {
            MarkRest(batch, static message => message.Release());
            return false;
        }

        if (exception is MessageRefusedException && batch.Count == 1)
        {
            MarkRest(batch, message => message.Refuse(FailureText.MessageOf(exception)));
            return true;
        }

        var reason = FailureText.Describe(exception);
        MarkRest(batch, message => message.Retry(reason));
        if (parts.Counters.Failed())
            Log.HandlerFailed(parts.Logger, exception, parts.Options.Queue, batch.Count);
        return true;
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
        // A handler that blocks its thread would block the worker's, which then could not end the wait for it.
        var handling = parts.Options.HandlerTimeLimit is null
            ? handler.HandleAsync(batch, held.Token)
            : new ValueTask(Task.Run(() => handler.HandleAsync(batch, held.Token).AsTask(), CancellationToken.None));
        if (!handling.IsCompletedSuccessfully)
        {
            var task = handling.AsTask();
            if (!task.IsCompleted && !await EndsAsync(task, held).ConfigureAwait(false))
            {
                Abandon(task, held, batch);
                return;
            }

            await task.ConfigureAwait(false);
            // It may have returned because it was cancelled, with messages that it has not handled.
            if (held.IsTimedOut)
            {
                MarkLate(batch, cause: string.Empty);
                return;
            }
        }

        parts.Counters.Succeeded();
    }

    private void MarkLate(QueueBatch batch, string cause)
    {
        var reason = $"The handler was cancelled at {TimeLimit}.{cause}";
        MarkRest(batch, message => message.Retry(reason));
        parts.Counters.Failed();
        Log.HandlerTimedOut(parts.Logger, _throttle, parts.Options.Queue, batch.Count, TimeLimit);
    }

    // False when the handler still runs although its token was cancelled.
    private async ValueTask<bool> EndsAsync(Task handling, HeldClaim held)
    {
        await handling.WaitAsync(parts.Options.HandlerTimeLimit ?? Timeout.InfiniteTimeSpan, parts.TimeProvider, parts.Stop.Abandoning).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (handling.IsCompleted)
            return true;
        if (!parts.Stop.Abandoning.IsCancellationRequested)
        {
            held.TimeOut();
            parts.Counters.TimedOut();
        }

        await handling.WaitAsync(CancelledHandlerTime, parts.TimeProvider, CancellationToken.None).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        return handling.IsCompleted || !held.Token.IsCancellationRequested;
    }

    // The worker goes on without the handler. Its messages are settled by copies, because it may still mark the originals.
    private void Abandon(Task handling, HeldClaim held, QueueBatch batch)
    {
        if (!held.IsTimedOut)
        {
            Log.HandlerAbandoned(parts.Logger, parts.Options.Queue, batch.Count);
            held.MarkCopies(static message => message.Release());
            return;
        }

        var reason = $"The handler did not end at {TimeLimit}, and ignored its token.";
        held.MarkCopies(message => message.Retry(reason));
        parts.Counters.Failed();
        parts.Intake.Abandon();
        _ = WatchAsync(handling);
        Log.HandlerLeft(parts.Logger, _throttle, parts.Options.Queue, batch.Count, TimeLimit);
    }

    private async Task WatchAsync(Task handling)
    {
        await handling.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        parts.Intake.Ended();
        parts.Signal.Wake();
    }
}
