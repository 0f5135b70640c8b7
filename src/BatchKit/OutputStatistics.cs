namespace BatchKit;

/// <summary>What became of everything written to a buffer, as one snapshot.</summary>
/// <remarks>
/// At every quiet point (no write or send under way) <c>accepted = acknowledged + failed + dropped + pending</c>. Pending is counted by
/// looking at what waits, not by subtraction, so that the law can be checked. While messages move, the figures may be a few apart.
/// A message for several routes counts once, when all of them are settled.
/// </remarks>
public sealed record OutputStatistics
{
    /// <summary>Messages taken by a write.</summary>
    public required long AcceptedMessages { get; init; }

    /// <summary>Payload bytes taken by a write.</summary>
    public required long AcceptedBytes { get; init; }

    /// <summary>Messages that every one of their routes acknowledged.</summary>
    public required long AcknowledgedMessages { get; init; }

    /// <summary>Messages that a route refused for good or that passed their delivery limit.</summary>
    public required long FailedMessages { get; init; }

    /// <summary>Messages accepted and then dropped, for whatever reason. Those turned away at the door are in <see cref="RefusedMessages"/>.</summary>
    public long DroppedMessages => OverflowDroppedMessages + StopDroppedMessages;

    /// <summary>Messages accepted and then dropped to make room for newer ones (policy <see cref="OverflowPolicy.DropOldest"/>).</summary>
    public required long OverflowDroppedMessages { get; init; }

    /// <summary>Messages accepted and then dropped because the drain limit passed before they were sent.</summary>
    public required long StopDroppedMessages { get; init; }

    /// <summary>Messages that were dropped before they were accepted (policy <see cref="OverflowPolicy.DropNewest"/>).</summary>
    public required long RefusedMessages { get; init; }

    /// <summary>Messages accepted and not yet settled.</summary>
    public required long PendingMessages { get; init; }

    /// <summary>Bytes reserved by what is accepted and not yet settled; at most <see cref="OutputBufferOptions.MaxBufferedBytes"/>.</summary>
    public required long BufferedBytes { get; init; }

    /// <summary>Batches sealed so far.</summary>
    public required long Batches { get; init; }

    /// <summary>Sends so far, those that failed included.</summary>
    public required long Sends { get; init; }

    /// <summary>Sends that failed, in whole or in part.</summary>
    public required long FailedSends { get; init; }

    /// <summary>Handles that the buffer holds state for now.</summary>
    public required int LiveHandles { get; init; }

    /// <summary>Buffering scopes that are open now.</summary>
    public required int OpenScopes { get; init; }
}
