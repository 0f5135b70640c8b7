namespace BatchKit;

/// <summary>A snapshot of a buffer's counters: what happened to everything that was written to it.</summary>
/// <remarks>
/// While no write or send is under way, <c>accepted = acknowledged + failed + dropped + superseded + pending</c>; while messages move, the counters may differ
/// by a few. Pending messages are counted in the queues and not calculated from the others, so the equation can be checked. A message for several
/// routes counts once, when each of them has acknowledged it, given it up or dropped it.
/// </remarks>
public sealed record OutputStatistics
{
    /// <summary>Messages that were accepted by a write.</summary>
    public required long AcceptedMessages { get; init; }

    /// <summary>Payload bytes of the accepted messages.</summary>
    public required long AcceptedBytes { get; init; }

    /// <summary>Messages that all of their routes acknowledged.</summary>
    public required long AcknowledgedMessages { get; init; }

    /// <summary>Messages that a route refused, or gave up after <see cref="OutputBufferOptions.DeliveryTimeout"/>.</summary>
    public required long FailedMessages { get; init; }

    /// <summary>Messages that were accepted and then dropped, for any reason. Messages that were never accepted are in <see cref="RefusedMessages"/>.</summary>
    public long DroppedMessages => OverflowDroppedMessages + StopDroppedMessages + ExpiredMessages;

    /// <summary>Messages that were accepted and then dropped because newer ones needed their capacity (<see cref="OverflowPolicy.DropOldest"/>).</summary>
    public required long OverflowDroppedMessages { get; init; }

    /// <summary>Messages that were accepted and then dropped because the stop ended before they were sent: after <see cref="OutputBufferOptions.DrainTimeout"/>, or by its token.</summary>
    public required long StopDroppedMessages { get; init; }

    /// <summary>Messages that were accepted and then dropped because they had waited for longer than their <see cref="MessageHeader.TimeToLive"/> when their batch was to be sent.</summary>
    public required long ExpiredMessages { get; init; }

    /// <summary>Messages that were dropped instead of accepted because the buffer was full (<see cref="OverflowPolicy.DropNewest"/>).</summary>
    public required long RefusedMessages { get; init; }

    /// <summary>Calls of <c>WriteAsync</c> that wait for capacity, whether the caller awaits them or not. Their messages are not accepted yet, so no other counter has them.</summary>
    public required int WaitingWrites { get; init; }

    /// <summary>Messages that were accepted, and replaced by a newer one with their key while they waited (<see cref="IOutputBuffer.WriteLatest(OutputHandle, long, ReadOnlySpan{byte}, MessageHeader?)"/>).</summary>
    public required long SupersededMessages { get; init; }

    /// <summary>Messages that are accepted and not yet acknowledged, failed, dropped or superseded.</summary>
    public required long PendingMessages { get; init; }

    /// <summary>Bytes that pending messages reserve; at most <see cref="OutputBufferOptions.MaxBufferedBytes"/>.</summary>
    public required long BufferedBytes { get; init; }

    /// <summary>Batches sealed so far.</summary>
    public required long Batches { get; init; }

    /// <summary>Sends so far, including failed ones.</summary>
    public required long Sends { get; init; }

    /// <summary>Sends that failed, in whole or in part.</summary>
    public required long FailedSends { get; init; }

    /// <summary>Handles that the buffer holds memory for now.</summary>
    public required int LiveHandles { get; init; }

    /// <summary>Buffering scopes that are open now.</summary>
    public required int OpenScopes { get; init; }
}

/// <summary>Why a batch was sealed and queued.</summary>
internal enum FlushReason
{
    /// <summary>The outermost buffering scope closed.</summary>
    ScopeClosed = 0,

    /// <summary>It was written outside any scope, and its partition's sender took it.</summary>
    Unscoped = 1,

    /// <summary>It was written outside any scope, and <see cref="OutputBufferOptions.Linger"/> had passed.</summary>
    Linger = 2,

    /// <summary>Another message would have exceeded <see cref="OutputBufferOptions.MaxBatchBytes"/> or <see cref="OutputBufferOptions.MaxBatchMessages"/>.</summary>
    BatchFull = 3,

    /// <summary><c>FlushAsync</c> was called.</summary>
    Requested = 4,

    /// <summary>A scope opened: output that was written before it does not wait for its end.</summary>
    ScopeOpened = 5,

    /// <summary>A scope was open for longer than <see cref="OutputBufferOptions.MaxScopeAge"/>, or scopes on one handle overlapped for twice as long without a gap.</summary>
    ScopeExpired = 6,

    /// <summary>A writer waits for capacity, so nothing is held back.</summary>
    CapacityNeeded = 7,

    /// <summary>The buffer is stopping.</summary>
    Drain = 8,

    /// <summary>A message had waited for its scope's own limit; the scope stays open.</summary>
    HoldLimit = 9,

    /// <summary>The same ambient scope wrote to another handle next. Order holds across handles, so later output needs a batch behind that one.</summary>
    Interleaved = 10,
}

/// <summary>Why messages were lost. Every lost message is counted with its reason.</summary>
public enum DropReason
{
    /// <summary>The buffer was full, and its <see cref="OverflowPolicy"/> is to drop.</summary>
    Overflow = 0,

    /// <summary>The buffer stopped before they were sent: after <see cref="OutputBufferOptions.DrainTimeout"/>, or by the stop's token.</summary>
    Stopped = 1,

    /// <summary>A route refused them, or failed for longer than <see cref="OutputBufferOptions.DeliveryTimeout"/>.</summary>
    Failed = 2,

    /// <summary>They had waited for longer than their <see cref="MessageHeader.TimeToLive"/>.</summary>
    Expired = 3,
}
