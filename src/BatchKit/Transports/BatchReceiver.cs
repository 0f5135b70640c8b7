using System.Diagnostics.Metrics;
using System.Runtime.CompilerServices;
using BatchKit.Diagnostics;
using Microsoft.Extensions.Logging;
using Microsoft.Extensions.Logging.Abstractions;

namespace BatchKit.Transports;

/// <summary>Receives frames from a broker: it drops repeated batches, passes the others to the next hop, and completes when the next hop has them, so that the adapter can acknowledge the frame.</summary>
/// <remarks>
/// <para>An adapter gives it the frames of one queue in their order, one at a time, and acknowledges each when its task has completed. When the next
/// hop fails, the receiver retries in place, so nothing overtakes; only settled batches count as seen.</para>
/// <para>When the first batch that waits has failed for <see cref="BatchReceiverOptions.DeliveryTimeout"/>, the receiver sends each waiting batch
/// alone. It refuses a batch when that batch fails alone, the next hop then takes another, and the batch fails alone again. When the next
/// hop takes nothing at all, it refuses the first batch only, and the next one gets the full time: a next hop that is down for longer
/// costs at most one batch for each <see cref="BatchReceiverOptions.DeliveryTimeout"/>, and the broker keeps the rest. Order holds for each handle. What is refused is
/// counted and logged.</para>
/// <para>A <see cref="MessageDispatcher"/> reports at which message of a batch its handler fails. The receiver then refuses that message alone, and continues with the messages behind it. Each
/// message of the batch that it refuses halves the time of the next one, so that no batch holds up the others for more than twice the time.</para>
/// </remarks>
public sealed class BatchReceiver
{
    private readonly FrameLimits _limits;
    private readonly bool _filtersDuplicates;
    private readonly long _maxNumberJump;
    private readonly FrameSigner? _signer;
    private readonly TimeSpan _maxFrameAge;
    private readonly Func<ProducerId, OutputHandle, bool>? _isDeliveredLocally;
    private readonly ReceiverObserver _observer;

    // Used only by the receive under way.
    private readonly FrameBatches _frame = new(isReused: true);
    private readonly HandleNames _names = new();
    private readonly DuplicateFilter _filter;
    private readonly FrameDelivery _delivery;
    private readonly FrameRejections _rejections;

    // Counted by the receive under way, read by any thread.
    private readonly TallyCounter _received = new();
    private readonly TallyCounter _duplicate = new();
    private readonly TallyCounter _ownGroup = new();
    private readonly TallyCounter _abandoned = new();
    private readonly ObserverFaults _observerFaults = new();
    private long _receivedFrames;
    private long _malformedFrames;

    private NodeNumber? _node;
    private bool _isReceiving;

    /// <summary>Creates a receiver.</summary>
    /// <param name="next">The next hop; it gets one send at a time.</param>
    /// <param name="options">Its settings; the defaults when null.</param>
    /// <param name="timeProvider">The clock of pauses and expiry; the system's when null.</param>
    /// <param name="logger">Gets warnings when the next hop fails or refuses. A logger that throws has no effect on what is received.</param>
    /// <param name="meterFactory">Creates the meter; null, the default, for no meter. <see cref="GetStatistics"/> has the same figures.</param>
    /// <exception cref="Microsoft.Extensions.Options.OptionsValidationException">An option is outside its range; the message names it.</exception>
    public BatchReceiver(
        IBatchTransport next, BatchReceiverOptions? options = null, TimeProvider? timeProvider = null, ILogger<BatchReceiver>? logger = null, IMeterFactory? meterFactory = null)
    {
        ArgumentNullException.ThrowIfNull(next);
        options ??= new BatchReceiverOptions();
        OptionsRules.ThrowIfInvalid(new BatchReceiverOptionsValidator(), options);
        timeProvider ??= TimeProvider.System;
        TimeProvider = timeProvider;
        Groups = next as IGroupMembership;
        _limits = options.Limits;
        _filtersDuplicates = options.FilterDuplicates;
        _isDeliveredLocally = options.IsDeliveredLocally;
        (_signer, _maxFrameAge) = (options.Signer, options.MaxFrameAge);
        _node = options.Node is { } node ? new NodeNumber(node) : null;
        _filter = _signer is null ? new DuplicateFilter(timeProvider, options.ProducerExpiry, options.MaxProducers)
            : new DuplicateFilter(timeProvider, LongerOf(options.ProducerExpiry, LongestValidity(options.MaxFrameAge)), options.MaxProducers, maxGap: long.MaxValue);
        _maxNumberJump = options.MaxNumberJump;
        var guarded = new GuardedLogger(logger ?? NullLogger<BatchReceiver>.Instance, _observerFaults);
        _delivery = new FrameDelivery(next, options, timeProvider, guarded);
        _rejections = new FrameRejections(timeProvider, guarded);
        _observer = new ReceiverObserver(this, options, meterFactory, _observerFaults);
    }

    /// <summary>What the next hop knows about groups; null where it gets the output of every group.</summary>
    public IGroupMembership? Groups { get; }

    internal TimeProvider TimeProvider { get; }

    /// <summary>The node whose frames it reads; another one may be leased yet. Null when unknown.</summary>
    internal int? Node => _node?.Candidate;

    /// <summary>The senders whose numbers it remembers, to drop what they repeat.</summary>
    internal int RememberedProducers => _filter.Count;

    /// <summary>Reads a frame and completes when the next hop has every batch of it that is new, or has refused it.</summary>
    /// <remarks>It also completes for a frame that is not signed as <see cref="BatchReceiverOptions.Signer"/> asks, or whose numbers jump by more than <see cref="BatchReceiverOptions.MaxNumberJump"/>:
    /// nothing of that frame is passed on, and it is counted and logged. When the call is cancelled, the receiver remembers what the next hop has, so you may receive the whole frame again.</remarks>
    /// <param name="frame">The frame; it must stay unchanged until the task has ended.</param>
    /// <param name="cancellationToken">Ends the attempts. Do not acknowledge the frame then.</param>
    /// <exception cref="FrameFormatException">The frame is malformed. Nothing of it was passed on, and receiving it again fails again.</exception>
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
            if (!TryRead(frame, out var seen))
                return;
            SelectPending(seen);
            try
            {
                await DeliverAsync(cancellationToken).ConfigureAwait(false);
            }
            finally
            {
                if (seen is not null)
                    MarkSettled(seen);
                _abandoned.Add(_delivery.TallyPending());
            }
        }
        finally
        {
            _delivery.Clear();
            _frame.Release();
            Volatile.Write(ref _isReceiving, false);
        }
    }

    /// <summary>Sets the node whose frames it reads, so that it rejects a frame that is signed for another one. Adapters that lease the number call it before the first receive.</summary>
    /// <param name="node">The node's number, which the first signed frame fixes.</param>
    public void ReadFor(NodeNumber node)
    {
        ArgumentNullException.ThrowIfNull(node);
        _node = node;
    }

    /// <summary>Reads the counters. Call it at any time and from any thread.</summary>
    public BatchReceiverStatistics GetStatistics() => new()
    {
        ReceivedFrames = Interlocked.Read(ref _receivedFrames),
        MalformedFrames = Interlocked.Read(ref _malformedFrames),
        RejectedFrames = _rejections.Count,
        ReceivedBatches = _received.Batches,
        ReceivedMessages = _received.Messages,
        DeliveredBatches = _delivery.Delivered.Batches,
        DeliveredMessages = _delivery.Delivered.Messages,
        DuplicateBatches = _duplicate.Batches,
        DuplicateMessages = _duplicate.Messages,
        OwnGroupBatches = _ownGroup.Batches,
        OwnGroupMessages = _ownGroup.Messages,
        RefusedBatches = _delivery.Refused.Batches,
        RefusedMessages = _delivery.Refused.Messages,
        AbandonedBatches = _abandoned.Batches,
        AbandonedMessages = _abandoned.Messages,
        ConsecutiveFailures = _delivery.ConsecutiveFailures,
        ObserverFaults = _observerFaults.Count,
    };

    // A signed frame must be known for as long as somebody can repeat it: the sender's clock may be as far ahead of this one as an old frame's time is behind it.
    private static TimeSpan LongestValidity(TimeSpan maxFrameAge) => 2 * maxFrameAge;

    private static TimeSpan LongerOf(TimeSpan first, TimeSpan second) => first > second ? first : second;

    /// <returns>False when the frame can't be trusted: it was rejected, counted and logged.</returns>
    private bool TryRead(ReadOnlyMemory<byte> frame, out SeenNumbers? seen)
    {
        seen = null;
        if (_signer?.FindFault(frame, _node?.Value, TimeProvider.GetUtcNow(), _maxFrameAge, out frame) is { } fault)
        {
            _rejections.Add(fault);
            return false;
        }

        Read(frame);
        if (!_filtersDuplicates || (seen = _filter.TryUse(_frame.Producer, _frame.Batches.Span, _maxNumberJump)) is not null)
            return true;
        _rejections.Add("its numbers jump by more than MaxNumberJump");
        return false;
    }

    private void Read(ReadOnlyMemory<byte> frame)
    {
        try
        {
            FrameReader.Read(frame, _limits, _frame, _names);
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
        foreach (var batch in _frame.Batches.Span)
        {
            received = received.With(batch);
            if (seen is not null && seen.Contains(batch.Number))
                duplicate = duplicate.With(batch);
            else if (_isDeliveredLocally is not null && !batch.Handle.IsConnection && _isDeliveredLocally(batch.Producer, batch.Handle))
                ownGroup = ownGroup.With(batch);
            else
                _delivery.Add(batch);
        }

        _received.Add(received);
        _duplicate.Add(duplicate);
        _ownGroup.Add(ownGroup);
    }

    private ValueTask DeliverAsync(CancellationToken cancellationToken) =>
        _observer.IsObserving && !_delivery.Pending.IsEmpty ? DeliverObservedAsync(cancellationToken) : _delivery.DeliverAsync(cancellationToken);

    private async ValueTask DeliverObservedAsync(CancellationToken cancellationToken)
    {
        var refusedBefore = _delivery.Refused.Messages;
        using var observation = _observer.Start(_delivery.TallyPending().Messages, _frame.Trace);
        try
        {
            await _delivery.DeliverAsync(cancellationToken).ConfigureAwait(false);
        }
        catch (Exception exception)
        {
            observation.ErrorType = exception.GetType().FullName;
            throw;
        }

        if (_delivery.Refused.Messages > refusedBefore)
            observation.ErrorType = DeliveryObservation.RefusedError;
    }

    // Both lists are in the order of the numbers: what is in the frame and not pending is settled.
    private void MarkSettled(SeenNumbers seen)
    {
        var pending = _delivery.Pending.Span;
        var batches = _frame.Batches.Span;
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

/// <summary>Counts the frames that a receiver does not trust, and logs them at most once a period, because a sender that can forge frames can forge many.</summary>
internal sealed class FrameRejections(TimeProvider timeProvider, ILogger logger)
{
    private static readonly TimeSpan Period = TimeSpan.FromSeconds(10);

    private readonly LogThrottle _throttle = new(timeProvider, Period);

    // Counted by the receive under way, read by any thread.
    private long _count;

    public long Count => Interlocked.Read(ref _count);

    public void Add(string reason)
    {
        Interlocked.Increment(ref _count);
        logger.FramesRejected(_throttle, reason, Period);
    }
}
