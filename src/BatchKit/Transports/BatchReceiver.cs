using System.Runtime.CompilerServices;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Transports;

/// <summary>Takes frames off a broker: drops what was seen, hands the rest to the next hop, and completes when that has it, so that the broker can be acknowledged.</summary>
/// <remarks>
/// An adapter gives it the frames of one queue in their order, one at a time, and acknowledges each when its task has completed. Where the next
/// hop fails it tries again in place, so nothing overtakes; only what was settled counts as seen.
/// </remarks>
public sealed class BatchReceiver
{
    private readonly IBatchTransport _next;
    private readonly BatchReceiverOptions _options;
    private readonly TimeProvider _timeProvider;
    private readonly ILogger _logger;
    private readonly RetrySchedule _schedule;

    // Touched by the receive under way only.
    private readonly FrameBatches _frame = new(isReused: true);
    private readonly HandleNames _names = new();
    private readonly DuplicateFilter _filter;
    private readonly PendingDelivery _pending = new();

    // Counted by the receive under way, read by any thread.
    private TallyCounter _received;
    private TallyCounter _delivered;
    private TallyCounter _duplicate;
    private TallyCounter _ownGroup;
    private TallyCounter _refused;
    private TallyCounter _abandoned;
    private long _receivedFrames;
    private long _malformedFrames;
    private int _failuresInARow;

    private bool _isReceiving;

    /// <summary>Makes a receiver.</summary>
    /// <param name="next">The next hop; it gets one send at a time.</param>
    /// <param name="options">Its settings; the defaults when null.</param>
    /// <param name="timeProvider">The clock of pauses and expiry; the system's when null.</param>
    /// <param name="logger">Gets warnings when the next hop fails or refuses.</param>
    public BatchReceiver(IBatchTransport next, BatchReceiverOptions? options = null, TimeProvider? timeProvider = null, ILogger<BatchReceiver>? logger = null)
    {
        ArgumentNullException.ThrowIfNull(next);
        _next = next;
        _options = options ?? new BatchReceiverOptions();
        _timeProvider = timeProvider ?? TimeProvider.System;
        _logger = logger ?? NullLogger<BatchReceiver>.Instance;
        _schedule = new RetrySchedule(_options.RetryDelay, _options.MaxRetryDelay);
        _filter = new DuplicateFilter(_timeProvider, _options.ProducerExpiry, _options.MaxProducers);
    }

    /// <summary>Reads a frame and completes when the next hop has every batch of it that is new, or has refused it for good.</summary>
    /// <remarks>When it is cancelled, what the next hop has is remembered, so the frame may be received again, whole.</remarks>
    /// <param name="frame">The frame; it must stay unchanged until the task has ended.</param>
    /// <param name="cancellationToken">Ends the tries. The broker is not to be acknowledged then.</param>
    /// <exception cref="FrameFormatException">The frame is malformed; nothing of it was handed on, and it never can be.</exception>
    /// <exception cref="InvalidOperationException">Another frame is still being received.</exception>
    /// <exception cref="OperationCanceledException">It was cancelled before the next hop had everything.</exception>
    // Pooled, because a hop that completes later would cost an allocation for every frame; calls do not overlap, so one is enough.
    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    public async ValueTask ReceiveAsync(ReadOnlyMemory<byte> frame, CancellationToken cancellationToken)
    {
        if (Interlocked.Exchange(ref _isReceiving, true))
            throw new InvalidOperationException("A receiver takes one frame at a time, and another is still being received.");
        try
        {
            cancellationToken.ThrowIfCancellationRequested();
            Read(frame);
            var seen = _options.FilterDuplicates ? _filter.Of(_frame.Producer) : null;
            SelectPending(seen);
            try
            {
                await DeliverAsync(cancellationToken).ConfigureAwait(false);
            }
            finally
            {
                if (seen is not null)
                    MarkSettled(seen);
                _abandoned.Add(_pending.Tally());
            }
        }
        finally
        {
            _pending.Clear();
            _frame.Release();
            Volatile.Write(ref _isReceiving, false);
        }
    }

    /// <summary>The counters, at any time and from any thread.</summary>
    public BatchReceiverStatistics GetStatistics() => new()
    {
        ReceivedFrames = Interlocked.Read(ref _receivedFrames),
        MalformedFrames = Interlocked.Read(ref _malformedFrames),
        ReceivedBatches = _received.Batches,
        ReceivedMessages = _received.Messages,
        DeliveredBatches = _delivered.Batches,
        DeliveredMessages = _delivered.Messages,
        DuplicateBatches = _duplicate.Batches,
        DuplicateMessages = _duplicate.Messages,
        OwnGroupBatches = _ownGroup.Batches,
        OwnGroupMessages = _ownGroup.Messages,
        RefusedBatches = _refused.Batches,
        RefusedMessages = _refused.Messages,
        AbandonedBatches = _abandoned.Batches,
        AbandonedMessages = _abandoned.Messages,
        FailuresInARow = Volatile.Read(ref _failuresInARow),
    };

    private void Read(ReadOnlyMemory<byte> frame)
    {
        try
        {
            FrameReader.Read(frame, _options.Limits, _frame, _names);
        }
        catch (FrameFormatException)
        {
            Interlocked.Increment(ref _malformedFrames);
            throw;
        }

        Interlocked.Increment(ref _receivedFrames);
    }

    private void SelectPending(SeenNumbers? seen)
    {
        var received = default(BatchTally);
        var duplicate = default(BatchTally);
        var ownGroup = default(BatchTally);
        var dropsGroups = _options.DropOwnGroups && _frame.Producer.Node == _options.Node;
        foreach (var batch in _frame.Batches.Span)
        {
            received = received.With(batch);
            if (seen is not null && seen.Contains(batch.Number))
                duplicate = duplicate.With(batch);
            else if (dropsGroups && !batch.Handle.IsConnection)
                ownGroup = ownGroup.With(batch);
            else
                _pending.Add(batch);
        }

        _received.Add(received);
        _duplicate.Add(duplicate);
        _ownGroup.Add(ownGroup);
    }

    [AsyncMethodBuilder(typeof(PoolingAsyncValueTaskMethodBuilder))]
    private async ValueTask DeliverAsync(CancellationToken cancellationToken)
    {
        while (_pending.Count > 0)
        {
            Exception failure;
            try
            {
                await _next.SendAsync(_pending.Batches, cancellationToken).ConfigureAwait(false);
                _delivered.Add(_pending.Tally());
                _pending.Clear();
                Recover();
                return;
            }
            catch (BatchSendException exception)
            {
                Settle(exception);
                failure = exception;
            }
            catch (Exception exception)
            {
                failure = exception;
            }

            if (_pending.Count > 0)
                await PauseAsync(failure, cancellationToken).ConfigureAwait(false);
        }
    }

    private void Settle(BatchSendException exception)
    {
        var (acknowledged, refused) = _pending.Settle(exception);
        _delivered.Add(acknowledged);
        _refused.Add(refused);
        if (refused.Messages > 0)
            ReceiverLog.MessagesRefused(_logger, refused.Messages, refused.Batches, exception);
        if (acknowledged.Batches > 0 || refused.Batches > 0)
            Recover();
    }

    private void Recover()
    {
        if (_failuresInARow == 0)
            return;
        ReceiverLog.NextHopRecovered(_logger, _failuresInARow);
        Volatile.Write(ref _failuresInARow, 0);
    }

    private Task PauseAsync(Exception failure, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        Volatile.Write(ref _failuresInARow, _failuresInARow + 1);
        var delay = _schedule.DelayAfter(_failuresInARow, Random.Shared);
        ReceiverLog.NextHopFailed(_logger, _pending.Count, _failuresInARow, delay, failure);
        return Task.Delay(delay, _timeProvider, cancellationToken);
    }

    // Both lists are in the order of the numbers: what is in the frame and not pending is settled.
    private void MarkSettled(SeenNumbers seen)
    {
        var pending = _pending.Batches.Span;
        var batches = _frame.Batches.Span;
        if (pending.IsEmpty)
        {
            seen.AddThrough(batches[^1].Number);
            return;
        }

        var unsettled = 0;
        foreach (var batch in batches)
        {
            if (unsettled < pending.Length && ReferenceEquals(batch, pending[unsettled]))
                unsettled++;
            else if (unsettled == 0)
                seen.AddThrough(batch.Number);
            else
                seen.AddBeyond(batch.Number);
        }
    }
}
