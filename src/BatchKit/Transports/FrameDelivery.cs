using System.Runtime.CompilerServices;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;

namespace BatchKit.Transports;

/// <summary>Delivers the batches of one frame to the next hop, in order: retries in place, and refuses what the next hop does not take in time. One frame at a time.</summary>
internal sealed class FrameDelivery(IBatchTransport next, BatchReceiverOptions options, TimeProvider timeProvider, ILogger logger)
{
    // As many as a send has by default are kept from frame to frame.
    private const int MaxKept = 4096;

    private readonly LogThrottle _throttle = new(timeProvider);
    private readonly TimeSpan _deliveryTimeout = options.DeliveryTimeout;
    private readonly RetrySchedule _schedule = new(options.RetryDelay, options.MaxRetryDelay);

    // Used only by the delivery under way.
    private MessageBatch[] _pending = [];
    private int _count;
    private (ProducerId Producer, long Number)? _failedFirst;
    private int _failedMessage;
    private long _failedFirstSince;

    // Counted by the delivery under way, read by any thread.
    private int _consecutiveFailures;

    public TallyCounter Delivered { get; } = new();

    public TallyCounter Refused { get; } = new();

    public int ConsecutiveFailures => Volatile.Read(ref _consecutiveFailures);

    /// <summary>The batches that are not settled, in the order in which they were added.</summary>
    public ReadOnlyMemory<MessageBatch> Pending => _pending.AsMemory(0, _count);

    public void Add(MessageBatch batch)
    {
        if (_count == _pending.Length)
            Array.Resize(ref _pending, Math.Max(4, _count * 2));
        _pending[_count++] = batch;
    }

    /// <summary>Completes when every batch is delivered or refused. When it is cancelled, <see cref="Pending"/> has the rest.</summary>
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    public async ValueTask DeliverAsync(CancellationToken cancellationToken)
    {
        _throttle.Flush();
        while (_count > 0)
        {
            Exception failure;
            try
            {
                await next.SendAsync(Pending, cancellationToken).ConfigureAwait(false);
                Acknowledge(0, _count);
                return;
            }
            catch (Exception exception)
            {
                failure = exception;
            }

            Settle(failure, 0, _count);
            if (_count == 0)
                return;
            cancellationToken.ThrowIfCancellationRequested();
            var failed = FailedBatch.Take(_pending[0], failure);
            if (TimeLeft(failed) is var left && left > TimeSpan.Zero)
                await PauseAsync(failure, left, cancellationToken).ConfigureAwait(false);
            else if (_count == 1)
                GiveUp([failed]);
            else
                await IsolateAsync(cancellationToken).ConfigureAwait(false);
        }
    }

    public BatchTally TallyPending() => Tally(0, _count);

    public void Clear()
    {
        _pending.AsSpan(0, _count).Clear();
        _count = 0;
        if (_pending.Length > MaxKept)
            _pending = [];
    }

    private void Acknowledge(int first, int count)
    {
        Delivered.Add(Tally(first, count));
        Remove(first, count);
        Recover();
    }

    /// <summary>Removes what a failed send settled. A refused message of an acknowledged batch counts as refused, its neighbours as delivered.</summary>
    private void Settle(Exception failure, int first, int count)
    {
        if (failure is not BatchSendException partial)
            return;
        var refusedMessages = CountRefusedMessages(partial, first, count);
        var acknowledged = new BatchTally(0, -refusedMessages);
        var refused = new BatchTally(0, refusedMessages);
        var kept = first;
        for (var index = 0; index < count; index++)
        {
            var batch = _pending[first + index];
            var outcome = partial.OutcomeOf(index);
            if (outcome == BatchOutcome.Acknowledged)
                acknowledged = acknowledged.With(batch);
            else if (outcome == BatchOutcome.Refused)
                refused = refused.With(batch);
            else
                _pending[kept++] = batch;
        }

        Remove(kept, first + count - kept);
        Delivered.Add(acknowledged);
        Refused.Add(refused);
        if (refused.Messages > 0 && !partial.DestinationsAreGone)
            logger.ReceivedMessagesRefused(_throttle, refused.Messages, refused.Batches, partial);
        if (acknowledged.Batches > 0 || refused.Batches > 0)
            Recover();
    }

    // The time begins at the first failure of the batch that is first now, so the previous batch uses none of it. It continues when the frame is
    // abandoned and comes again: by then these are other objects with the same numbers. It begins again when the next hop has reached a later message.
    private TimeSpan TimeLeft(FailedBatch failed)
    {
        var now = timeProvider.GetTimestamp();
        var first = (failed.Batch.Producer, failed.Batch.Number);
        if (_failedFirst != first || failed.Message > _failedMessage)
            (_failedFirst, _failedMessage, _failedFirstSince) = (first, failed.Message, now);
        return failed.TimeLimit(_deliveryTimeout) - timeProvider.GetElapsedTime(_failedFirstSince, now);
    }

    private Task PauseAsync(Exception failure, TimeSpan timeLeft, CancellationToken cancellationToken)
    {
        Volatile.Write(ref _consecutiveFailures, _consecutiveFailures + 1);
        var delay = _schedule.DelayAfter(_consecutiveFailures, Random.Shared);
        if (delay > timeLeft)
            delay = WholeMilliseconds.Of(timeLeft);
        logger.NextHopFailed(_throttle, _count, _consecutiveFailures, delay, failure);
        return Task.Delay(delay, timeProvider, cancellationToken);
    }

    /// <summary>
    /// Sends the pending batches one by one. Settles each that the next hop takes, and gives up each that fails twice with a success between. Without a success, it gives up at most the first. When a
    /// batch fails at a message that the next hop names, it gives up that message alone, and the batch stays for the next send.
    /// </summary>
    private async Task IsolateAsync(CancellationToken cancellationToken)
    {
        var original = _pending[0];
        var (failed, provenCount) = await SendAloneAsync(cancellationToken).ConfigureAwait(false);
        if (provenCount == 0)
        {
            // Nothing was taken after a failure, so nothing tells a bad batch from a next hop that is down: only the first has used its time.
            if (failed.Count > 0 && failed[0].Batch == original && TimeLeft(failed[0]) <= TimeSpan.Zero)
                GiveUp(failed[..1]);
            return;
        }

        var givenUp = new List<FailedBatch>();
        foreach (var earlier in failed[..provenCount])
        {
            var again = await TrySendAsync(Array.IndexOf(_pending, earlier.Batch, 0, _count), cancellationToken).ConfigureAwait(false);
            if (again is { } failure && (earlier.Message < 0 || failure.Message <= earlier.Message))
                givenUp.Add(failure);
        }

        GiveUp(givenUp);
    }

    /// <summary>Sends each pending batch alone. A handle's later batches stay behind one of its own that failed, so that order holds for each handle.</summary>
    /// <returns>What failed, and how many of these failed before the last batch that the next hop took.</returns>
    private async Task<(List<FailedBatch> Failed, int ProvenCount)> SendAloneAsync(CancellationToken cancellationToken)
    {
        var failed = new List<FailedBatch>();
        var failedHandles = new HashSet<OutputHandle>();
        var provenCount = 0;
        var started = timeProvider.GetTimestamp();
        for (var index = 0; index < _count && timeProvider.GetElapsedTime(started) < _deliveryTimeout;)
        {
            var batch = _pending[index];
            if (failedHandles.Contains(batch.Handle))
            {
                index++;
            }
            else if (await TrySendAsync(index, cancellationToken).ConfigureAwait(false) is { } failure)
            {
                failed.Add(failure);
                failedHandles.Add(batch.Handle);
                index++;
            }
            else
            {
                provenCount = failed.Count;
            }
        }

        return (failed, provenCount);
    }

    /// <summary>Sends one batch. It is settled when there is no failure.</summary>
    private async Task<FailedBatch?> TrySendAsync(int index, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        var (batch, count) = (_pending[index], _count);
        try
        {
            await next.SendAsync(Pending.Slice(index, 1), cancellationToken).ConfigureAwait(false);
            Acknowledge(index, 1);
            return null;
        }
        catch (Exception exception)
        {
            Settle(exception, index, 1);
            cancellationToken.ThrowIfCancellationRequested();
            return _count < count ? null : FailedBatch.Take(batch, exception);
        }
    }

    private void GiveUp(List<FailedBatch> failed)
    {
        if (failed.Count == 0)
            return;
        var batches = default(BatchTally);
        var messages = 0;
        foreach (var (batch, message, _) in failed)
        {
            // The last message that is left goes with its batch.
            if (message >= 0 && batch is ReceivedBatch received && batch.Count - received.GivenUpMessages > 1)
            {
                received.GiveUp(message);
                messages++;
            }
            else
            {
                batches = batches.With(batch);
                Remove(Array.IndexOf(_pending, batch, 0, _count), 1);
            }
        }

        _failedFirst = null;
        Refused.Add(new BatchTally(batches.Batches, batches.Messages + messages));
        if (messages > 0)
            logger.MessagesGivenUp(_throttle, messages, _deliveryTimeout, failed[0].Failure);
        if (batches.Batches > 0)
            logger.ReceivedBatchesGivenUp(_throttle, batches.Batches, batches.Messages, _deliveryTimeout, failed[0].Failure);
    }

    private void Recover()
    {
        if (_consecutiveFailures == 0)
            return;
        logger.NextHopRecovered(_throttle, _consecutiveFailures);
        Volatile.Write(ref _consecutiveFailures, 0);
    }

    private void Remove(int first, int count)
    {
        var behind = first + count;
        _pending.AsSpan(behind, _count - behind).CopyTo(_pending.AsSpan(first));
        _pending.AsSpan(_count - count, count).Clear();
        _count -= count;
    }

    private BatchTally Tally(int first, int count)
    {
        var tally = default(BatchTally);
        foreach (var batch in _pending.AsSpan(first, count))
            tally = tally.With(batch);
        return tally;
    }

    private int CountRefusedMessages(BatchSendException exception, int first, int count)
    {
        var refused = 0;
        foreach (var (batch, message) in exception.RefusedMessages.Distinct())
        {
            var isAcknowledged = batch >= 0 && batch < count && exception.OutcomeOf(batch) == BatchOutcome.Acknowledged;
            refused += isAcknowledged && message >= 0 && message < _pending[first + batch].Count ? 1 : 0;
        }

        return refused;
    }
}

/// <summary>A batch that the next hop did not take, and the message at which it failed; -1 when the next hop does not say.</summary>
internal readonly record struct FailedBatch(MessageBatch Batch, int Message, Exception Failure)
{
    /// <summary>Reads at which message the send failed, and clears it, so that it is not taken for that of a later failure.</summary>
    public static FailedBatch Take(MessageBatch batch, Exception failure)
    {
        if (batch is not ReceivedBatch received || received.FailedMessage < received.FirstMessage)
            return new FailedBatch(batch, Message: -1, failure);
        var message = received.FailedMessage;
        received.FailedMessage = -1;
        return new FailedBatch(batch, message, failure);
    }

    /// <summary>Halves the limit for each message of the batch that was given up, so that a batch of bad messages holds up the others for at most two limits.</summary>
    public TimeSpan TimeLimit(TimeSpan first)
    {
        if (Batch is not ReceivedBatch { GivenUpMessages: > 0 and var givenUp })
            return first;

        // Whole milliseconds, because a shorter pause ends at once.
        return TimeSpan.FromMilliseconds((long)first.TotalMilliseconds >> Math.Min(givenUp, 62));
    }
}

/// <summary>How many batches, and how many messages in them that were not given up before.</summary>
internal readonly record struct BatchTally(int Batches, int Messages)
{
    public BatchTally With(MessageBatch batch) => new(Batches + 1, Messages + batch.Count - (batch is ReceivedBatch received ? received.GivenUpMessages : 0));
}

/// <summary>Counts batches and the messages in them: one thread adds, any thread reads.</summary>
internal sealed class TallyCounter
{
    private long _batches;
    private long _messages;

    public long Batches => Interlocked.Read(ref _batches);

    public long Messages => Interlocked.Read(ref _messages);

    public void Add(BatchTally tally)
    {
        Interlocked.Add(ref _batches, tally.Batches);
        Interlocked.Add(ref _messages, tally.Messages);
    }
}
