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

    // Touched by the delivery under way only.
    private MessageBatch[] _pending = [];
    private int _count;
    private (ProducerId Producer, long Number) _failedFirst;
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
            if (TimeLeftForFirst() is var left && left > TimeSpan.Zero)
                await PauseAsync(failure, left, cancellationToken).ConfigureAwait(false);
            else if (_count == 1)
                GiveUp([(_pending[0], failure)]);
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

    /// <summary>Takes out what a failed send settled. A refused message of an acknowledged batch counts as refused, its neighbours as delivered.</summary>
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
            var outcome = index < partial.Outcomes.Length ? partial.Outcomes[index] : BatchOutcome.Unacknowledged;
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
            ReceiverLog.MessagesRefused(logger, _throttle, refused.Messages, refused.Batches, partial);
        if (acknowledged.Batches > 0 || refused.Batches > 0)
            Recover();
    }

    // The time begins at the first failure of the batch that is first now, so the one before it takes nothing of it. It goes on when the frame is
    // abandoned and comes again: by then these are other objects with the same numbers.
    private TimeSpan TimeLeftForFirst()
    {
        var now = timeProvider.GetTimestamp();
        var first = (_pending[0].Producer, _pending[0].Number);
        if (_failedFirst != first)
            (_failedFirst, _failedFirstSince) = (first, now);
        return _deliveryTimeout - timeProvider.GetElapsedTime(_failedFirstSince, now);
    }

    private Task PauseAsync(Exception failure, TimeSpan timeLeft, CancellationToken cancellationToken)
    {
        Volatile.Write(ref _consecutiveFailures, _consecutiveFailures + 1);
        var delay = _schedule.DelayAfter(_consecutiveFailures, Random.Shared);
        if (delay > timeLeft)
            delay = timeLeft;
        ReceiverLog.NextHopFailed(logger, _throttle, _count, _consecutiveFailures, delay, failure);
        return Task.Delay(delay, timeProvider, cancellationToken);
    }

    /// <summary>Sends the pending batches one by one. Afterwards the first is settled, and so is each batch that the next hop takes or that fails twice with a success between.</summary>
    private async Task IsolateAsync(CancellationToken cancellationToken)
    {
        var original = _pending[0];
        var (failed, provenCount) = await SendAloneAsync(cancellationToken).ConfigureAwait(false);
        if (provenCount == 0)
        {
            // Nothing was taken after a failure, so nothing tells a bad batch from a next hop that is down: only the first has used its time.
            if (failed.Count > 0 && failed[0].Batch == original)
                GiveUp(failed[..1]);
            return;
        }

        var givenUp = new List<(MessageBatch Batch, Exception Failure)>();
        foreach (var (batch, _) in failed[..provenCount])
        {
            if (await TrySendAsync(Array.IndexOf(_pending, batch, 0, _count), cancellationToken).ConfigureAwait(false) is { } failure)
                givenUp.Add((batch, failure));
        }

        GiveUp(givenUp);
    }

    /// <summary>Sends each pending batch alone. A handle's later batches stay behind one of its own that failed, so that order holds for each handle.</summary>
    /// <returns>What failed, and how many of these failed before the last batch that the next hop took.</returns>
    private async Task<(List<(MessageBatch Batch, Exception Failure)> Failed, int ProvenCount)> SendAloneAsync(CancellationToken cancellationToken)
    {
        var failed = new List<(MessageBatch Batch, Exception Failure)>();
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
                failed.Add((batch, failure));
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
    private async Task<Exception?> TrySendAsync(int index, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        var count = _count;
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
            return _count < count ? null : exception;
        }
    }

    private void GiveUp(List<(MessageBatch Batch, Exception Failure)> batches)
    {
        if (batches.Count == 0)
            return;
        var tally = default(BatchTally);
        foreach (var (batch, _) in batches)
        {
            tally = tally.With(batch);
            Remove(Array.IndexOf(_pending, batch, 0, _count), 1);
        }

        Refused.Add(tally);
        ReceiverLog.BatchesGivenUp(logger, _throttle, tally.Batches, tally.Messages, _deliveryTimeout, batches[0].Failure);
    }

    private void Recover()
    {
        if (_consecutiveFailures == 0)
            return;
        ReceiverLog.NextHopRecovered(logger, _throttle, _consecutiveFailures);
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
            var isAcknowledged = batch >= 0 && batch < Math.Min(count, exception.Outcomes.Length) && exception.Outcomes[batch] == BatchOutcome.Acknowledged;
            refused += isAcknowledged && message >= 0 && message < _pending[first + batch].Count ? 1 : 0;
        }

        return refused;
    }
}

/// <summary>How many batches, and how many messages in them.</summary>
internal readonly record struct BatchTally(int Batches, int Messages)
{
    public BatchTally With(MessageBatch batch) => new(Batches + 1, Messages + batch.Count);
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

/// <summary>What a receiver logs; event ids from 200. What can happen again and again is logged once a period, with how often it happened.</summary>
internal static partial class ReceiverLog
{
    public static void NextHopFailed(ILogger logger, LogThrottle throttle, int batches, int failures, TimeSpan delay, Exception exception)
    {
        if (throttle.TryBegin(200, string.Empty, amount: 1, out var events))
            NextHopFailed(logger, batches, failures, delay, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void NextHopRecovered(ILogger logger, LogThrottle throttle, int failures)
    {
        if (throttle.TryBegin(201, string.Empty, amount: 1, out _))
            NextHopRecovered(logger, failures);
    }

    public static void MessagesRefused(ILogger logger, LogThrottle throttle, int messages, int batches, Exception exception)
    {
        if (throttle.TryBegin(202, string.Empty, messages, out var events))
            MessagesRefused(logger, events.Amount, batches, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void BatchesGivenUp(ILogger logger, LogThrottle throttle, int batches, int messages, TimeSpan deliveryTimeout, Exception exception)
    {
        if (throttle.TryBegin(203, string.Empty, amount: 1, out var events))
            BatchesGivenUp(logger, batches, messages, deliveryTimeout, events.Count, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    public static void FrameDropped(ILogger logger, LogThrottle throttle, int bytes, Exception exception)
    {
        if (throttle.TryBegin(204, string.Empty, amount: 1, out var events))
            FrameDropped(logger, bytes, events.Count, ThrottledEvents.CauseOf(exception), events.TraceOf(exception));
    }

    [LoggerMessage(200, LogLevel.Warning, "The next hop failed to take {Batches} received batches, {Failures} consecutive times; the next try is in {Delay}. {Cause}")]
    private static partial void NextHopFailed(ILogger logger, int batches, int failures, TimeSpan delay, string cause, Exception? exception);

    [LoggerMessage(201, LogLevel.Information, "The next hop took received batches again after {Failures} failures.")]
    private static partial void NextHopRecovered(ILogger logger, int failures);

    [LoggerMessage(202, LogLevel.Warning, "The next hop refused {Messages} received messages for good since the last such line; in the last frame it refused all messages of {Batches} batches. {Cause}")]
    private static partial void MessagesRefused(ILogger logger, long messages, int batches, string cause, Exception? exception);

    [LoggerMessage(203, LogLevel.Warning, "The next hop did not take {Batches} received batches with {Messages} messages within DeliveryTimeout ({DeliveryTimeout}); they were refused for good. Such refusals since the last such line: {Count}. {Cause}")]
    private static partial void BatchesGivenUp(ILogger logger, int batches, int messages, TimeSpan deliveryTimeout, long count, string cause, Exception? exception);

    [LoggerMessage(204, LogLevel.Warning, "A received frame of {Bytes} bytes can never be read and was dropped. Such frames since the last such line: {Count}. {Cause}")]
    private static partial void FrameDropped(ILogger logger, int bytes, long count, string cause, Exception? exception);

    [LoggerMessage(205, LogLevel.Warning, "{Frames} received frames were rejected and dropped, the last because {Reason}; further ones are reported once in {Period}.")]
    public static partial void FramesRejected(ILogger logger, long frames, string reason, TimeSpan period);
}
