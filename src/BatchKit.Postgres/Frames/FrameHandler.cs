using BatchKit.Diagnostics;
using BatchKit.Postgres.Schema;
using BatchKit.Transports;
using Microsoft.Extensions.Logging;

namespace BatchKit.Postgres.Frames;

/// <summary>Passes the frames of a queue, in order, to a <see cref="BatchReceiver"/>.</summary>
/// <remarks>One batch at a time, because the receiver takes one frame at a time.</remarks>
internal sealed class FrameHandler(BatchReceiver receiver, TimeProvider? timeProvider = null, ILogger? logger = null) : IMessageHandler<QueueMessage>
{
    private readonly HandlerTurns _turns = new();
    private readonly NewerFrames _newer = new(timeProvider ?? TimeProvider.System, GuardedLogger.Of(logger));

    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        var (earlier, ended) = _turns.Join();
        try
        {
            await earlier.WaitAsync(cancellationToken).ConfigureAwait(false);
            for (var next = 0; next < batch.Count && !_newer.TryLeave(batch, next); next++)
                await ReceiveAsync(batch[next], cancellationToken).ConfigureAwait(false);
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
            var before = ReplayedFrame.Is(message) ? receiver.GetStatistics() : (BatchReceiverStatistics?)null;
            await receiver.ReceiveAsync(ReplayedFrame.Read(message), cancellationToken).ConfigureAwait(false);
            if (before is { } counted && WhyDropped(message, counted) is { } reason)
                message.Refuse(reason);
            else
                message.Complete();
        }
        catch (FrameFormatException exception)
        {
            message.Refuse(FailureText.MessageOf(exception));
        }
    }

    // What an operator has brought back is not lost without a word.
    private string? WhyDropped(QueueMessage replayed, BatchReceiverStatistics before)
    {
        var after = receiver.GetStatistics();
        if (after.RejectedFrames > before.RejectedFrames)
            return "Its receiver rejected it: it is not signed as that asks, or too old; log 206 says which.";
        // A frame that is not signed has got a new producer, so that only a repeated attempt is a repeat.
        return after.DuplicateBatches > before.DuplicateBatches && !StoredHeader.IsFrame(replayed.Payload.Span)
            ? "It is signed, so that it keeps its numbers, and its receiver has handled later output of its sender: it was dropped as a repeat. Write its messages again."
            : null;
    }
}

/// <summary>Leaves frames of a newer version, and all frames after them, for a process that can read them. After a time limit it gives such a frame up, so that the frames after it are handled.</summary>
/// <remarks>Later frames wait because a receiver drops a producer's earlier frame that comes after a later one. Used by one batch at a time.</remarks>
internal sealed class NewerFrames(TimeProvider timeProvider, ILogger logger)
{
    /// <summary>How long a frame waits for a process that can read it: as long as a receiver, by default, retries batches that its next hop does not take.</summary>
    public static readonly TimeSpan Limit = TimeSpan.FromMinutes(2);

    // How long the frame is delayed, so that another process may claim it next.
    private static readonly TimeSpan Pause = TimeSpan.FromSeconds(1);

    private long _id;
    private long _since;
    private long? _gaveUpAt;

    /// <summary>True when the frame has a newer version, and was left or given up. Then it and all messages after it in the batch are marked.</summary>
    public bool TryLeave(IReadOnlyList<QueueMessage> batch, int index)
    {
        var message = batch[index];
        if (!StoredHeader.IsNewer(message.Payload.Span))
            return false;
        var isNew = message.Id != _id;
        if (isNew)
            (_id, _since) = (message.Id, timeProvider.GetTimestamp());
        // After a frame was given up, others of a newer version don't wait again, because no process that can read them is running.
        if (timeProvider.GetElapsedTime(_since) >= Limit || (_gaveUpAt is { } before && timeProvider.GetElapsedTime(before) < Limit))
        {
            _gaveUpAt = timeProvider.GetTimestamp();
            Log.NewerFrameBuried(logger, message.Id, Limit);
            message.Refuse($"It was written by a newer version of this package, and no process that can read it has taken it within {Limit}.");
        }
        else
        {
            if (isNew)
                Log.NewerFrame(logger, message.Id, Limit);
            message.Release(Pause);
        }

        for (var behind = index + 1; behind < batch.Count; behind++)
            batch[behind].Release();
        return true;
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
