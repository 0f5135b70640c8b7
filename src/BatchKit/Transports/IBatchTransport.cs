namespace BatchKit.Transports;

/// <summary>The next hop of a batch. Completing the send is the acknowledgement to the hop before.</summary>
/// <remarks>
/// A partition has one send in flight; a transport that serves several routes or partitions may get calls side by side. A transport does not
/// retry across sends, log or count: dispatch does.
/// </remarks>
public interface IBatchTransport
{
    /// <summary>Hands batches to the next hop, in order.</summary>
    /// <remarks>
    /// Completes when the next hop has them all: a publisher confirm, a committed row, a socket's queue. The batches and their memory are valid
    /// until the returned task has ended; who keeps bytes for longer copies them. What a failed send left unacknowledged is sent again, unchanged,
    /// before anything newer. It may write to the same buffer, open scopes and flush; what it writes goes behind what is under way.
    /// </remarks>
    /// <param name="batches">At least one batch. Dispatch sends those of one producer, an outbox those of several; each producer's numbers rise.</param>
    /// <param name="cancellationToken">Cancelled when the send takes too long or the buffer's drain limit has passed.</param>
    /// <exception cref="BatchSendException">Some batches were acknowledged, or some are refused for good. Any other exception means that none was
    /// acknowledged and all may be sent again.</exception>
    ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken);

    /// <summary>
    /// True when <see cref="SendAsync"/> never blocks its caller for long, so that an idle partition may send on the writer's own thread; false by
    /// default, which sends on the thread pool. Must not change.
    /// </summary>
    bool SendsWithoutBlocking => false;

    /// <summary>The largest message, payload and header in bytes, that the next hop takes; no limit by default. Must not change.</summary>
    int MaxMessageBytes => int.MaxValue;
}
