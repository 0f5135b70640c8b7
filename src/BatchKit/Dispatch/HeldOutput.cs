using BatchKit.Batches;
using BatchKit.Diagnostics;
using BatchKit.Transports;

namespace BatchKit.Dispatch;

/// <summary>What a partition holds because its receivers take nothing now, although the next hop works (<see cref="BatchOutcome.Busy"/>): output for others passes it.</summary>
/// <remarks>What was sent already is here; what was written after it for the same receivers waits in the partition's queue. Its lists are guarded by the partition's lock.</remarks>
internal sealed class HeldOutput(BufferSettings settings, IBatchTransport transport)
{
    // No two of them have a receiver in common, so each is tried by itself.
    private readonly List<HeldSend> _sends = [];
    private FrameReceivers _receivers = new();

    // Since when some receiver has been busy, coarsely; null when none is.
    private long? _since;

    // Read by the health check under no lock.
    private volatile PartitionFailure? _longest;

    public bool IsEmpty => _sends.Count == 0;

    /// <summary>What the sender tries again now; null while its send is a new one. Only the sender reads it.</summary>
    public HeldSend? Retried { get; private set; }

    /// <summary>How often what is tried again was tried before.</summary>
    public int Attempts => Retried?.Failure.Attempts ?? 0;

    /// <summary>When the next one is tried again, as a stamp of the clock; null when nothing is held.</summary>
    public long? Due => IsEmpty ? null : _sends.Min(static send => send.Due);

    /// <summary>Why the one that has waited longest does; null when nothing is held. Thread-safe.</summary>
    public PartitionFailure? Longest => _longest;

    /// <summary>Whether one must be tried again, or dropped.</summary>
    public bool IsDue(bool isAborted) => !IsEmpty && (isAborted || settings.Clock.Until(Due!.Value) <= TimeSpan.Zero);

    /// <summary>Takes out the next one that is due. What waits in the queue must then be looked at from its start.</summary>
    /// <returns>False when none is.</returns>
    public bool TakeDue(bool isAborted)
    {
        if (!IsDue(isAborted))
            return false;
        Retried = _sends.MinBy(static send => send.Due)!;
        _sends.Remove(Retried);
        _receivers = new FrameReceivers();
        foreach (var send in _sends)
            _receivers.Add(send.Receivers);
        return true;
    }

    /// <summary>Holds what a send left.</summary>
    /// <param name="send">Its batches.</param>
    /// <param name="failure">Why they were not taken.</param>
    /// <param name="attempts">How often they were tried since the last progress.</param>
    /// <param name="beganAt">When the first attempt began, coarsely.</param>
    /// <param name="delay">After which time they are tried again.</param>
    public void Add(HeldSend send, Exception failure, int attempts, long beganAt, TimeSpan delay)
    {
        var now = settings.Clock.Now;
        (send.Due, send.BeganAt) = (settings.Clock.After(delay), beganAt);
        send.Failure = new PartitionFailure(Retried?.Failure.Since ?? now, now, attempts, failure);
        foreach (var other in _sends.FindAll(other => other.Receivers.Overlap(send.Receivers)))
        {
            send.Merge(other);
            _sends.Remove(other);
        }

        _since ??= send.BeganAt;
        _sends.Add(send);
        _receivers.Add(send.Receivers);
        Forget();
    }

    /// <summary>A whole send has arrived.</summary>
    public void Acknowledge()
    {
        if (_since is not null)
            _since = IsEmpty ? null : _sends.Min(static send => send.BeganAt);
    }

    /// <summary>What was tried again has been settled, or is held again.</summary>
    public void Forget()
    {
        Retried = null;
        _longest = _sends.MinBy(static send => send.Failure.Since)?.Failure;
    }

    /// <summary>Nothing is left that could be sent now.</summary>
    public void OnIdle() => _since = IsEmpty ? null : _since;

    /// <summary>When the attempts began of what has failed now, coarsely. What waited behind a busy receiver was not tried, but is as old as if it had been.</summary>
    /// <param name="beganAt">When the send that failed began.</param>
    /// <param name="failure">Why it failed.</param>
    public long FindBegin(long beganAt, Exception failure) =>
        Retried?.BeganAt ?? (failure is BatchSendException partial && partial.Outcomes.Contains(BatchOutcome.Busy) ? _since : null) ?? beganAt;

    /// <summary>Whether a queued batch must wait for something that is held. What comes after it for its own receivers then waits for it.</summary>
    public bool MustWait(RoutedBatch batch)
    {
        if (IsEmpty)
            return false;
        var destination = HeldSend.FindDestination(transport, batch, settings.Logger.Faults);
        if (!_receivers.Overlap(destination))
            return false;
        _receivers.Add(destination);
        return true;
    }

    public (long Messages, long Bytes) CountPending()
    {
        var pending = (Messages: 0L, Bytes: 0L);
        foreach (var batch in _sends.SelectMany(static send => send.Batches))
            batch.AddTo(ref pending);
        return pending;
    }
}

/// <summary>The batches of one send that are tried again together, in their order.</summary>
internal sealed class HeldSend(IBatchTransport transport, ObserverFaults faults)
{
    private readonly List<RoutedBatch> _batches = [];

    public IReadOnlyList<RoutedBatch> Batches => _batches;

    public FrameReceivers Receivers { get; } = new();

    /// <summary>Since when its receivers take nothing, how often they were tried, and why.</summary>
    public PartitionFailure Failure { get; set; } = null!;

    /// <summary>When it is tried again, as a stamp of the clock.</summary>
    public long Due { get; set; }

    /// <summary>When its first attempt began, coarsely.</summary>
    public long BeganAt { get; set; }

    /// <summary>Takes a batch that was not taken, or that comes after one for the same receivers.</summary>
    public void Add(RoutedBatch batch)
    {
        _batches.Add(batch);
        Receivers.Add(FindDestination(transport, batch, faults));
    }

    /// <summary>Takes what another one has: they share a receiver, whose numbers must rise.</summary>
    public void Merge(HeldSend other)
    {
        _batches.AddRange(other._batches);
        _batches.Sort(static (one, two) => one.Number.CompareTo(two.Number));
        Receivers.Add(other.Receivers);
        Failure = Failure with { Since = Math.Min(Failure.Since, other.Failure.Since) };
        BeganAt = Math.Min(BeganAt, other.BeganAt);
    }

    /// <summary>Whether a batch that comes later in the same send must wait too.</summary>
    public bool MustWait(RoutedBatch batch) => _batches.Count > 0 && Receivers.Overlap(FindDestination(transport, batch, faults));

    public static FrameDestination FindDestination(IBatchTransport transport, RoutedBatch batch, ObserverFaults faults)
    {
        try
        {
            return transport.GetDestination(batch.Content.Handle);
        }
        catch (Exception fault)
        {
            // It is asked under the partition's lock, where nothing may be thrown. What may go anywhere waits for everyone, so no order breaks.
            faults.Add(fault);
            return FrameDestination.All;
        }
    }
}
