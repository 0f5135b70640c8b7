using System.Collections.Immutable;

namespace BatchKit.Transports;

/// <summary>The next hop of a batch. Completing the send is the acknowledgement to the previous hop.</summary>
/// <remarks>
/// A partition has one send in flight; a transport that serves several routes or partitions may get concurrent calls. A transport does not
/// retry across sends, log or count: dispatch does.
/// </remarks>
public interface IBatchTransport
{
    /// <summary>Hands batches to the next hop, in order.</summary>
    /// <remarks>
    /// Completes when the next hop has them all: a publisher confirm, a committed row, a socket's queue. The batches and their memory are valid
    /// until the returned task has ended; copy bytes that you need after that. Unacknowledged batches are sent again, unchanged, before newer ones; those of busy receivers, before newer ones for these. A transport may write to the same buffer, open scopes and flush; what it writes goes behind what is under way.
    /// </remarks>
    /// <param name="batches">At least one batch. Dispatch sends those of one producer, an outbox those of several; each producer's numbers rise.</param>
    /// <param name="cancellationToken">Cancelled when the send takes too long or the buffer's drain limit has passed.</param>
    /// <exception cref="BatchSendException">Some batches were acknowledged, or some batches or messages are refused. Any other exception
    /// means that none was acknowledged and all may be sent again.</exception>
    ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken);

    /// <summary>
    /// True when <see cref="SendAsync"/> never blocks its caller for long, so that an idle partition may send on the writer's own thread; false by
    /// default, which sends on the thread pool. Must not change.
    /// </summary>
    bool SendsWithoutBlocking => false;

    /// <summary>
    /// The largest message that the next hop takes, in bytes: its payload, its header and the name of its handle (UTF-8); <see cref="MaxBatchBytes"/> by default. A larger one is refused
    /// at its write. The buffer reads it once, when it is created.
    /// </summary>
    int MaxMessageBytes => MaxBatchBytes;

    /// <summary>
    /// The largest batch that the next hop takes, in bytes: payloads, headers, 4 bytes a message, and the name of its handle (UTF-8); no limit by default. The
    /// buffer seals no larger one, and is not created when <see cref="OutputBufferOptions.MaxBatchBytes"/> is above it.
    /// </summary>
    /// <remarks>
    /// A transport that sends frames returns its largest frame less <see cref="FrameWriter.OverheadBytes"/>. One that learns of a lower limit when it connects returns that one from then on: the buffer reads it again
    /// after each send that waited or failed, and applies it to the batches that it begins then.
    /// </remarks>
    int MaxBatchBytes => int.MaxValue;

    /// <summary>
    /// The most bytes that one send should have, where <see cref="OutputBufferOptions.MaxSendBytes"/> allows more; no limit by default. A transport whose next hop acknowledges each message by
    /// itself sets one, because the whole send must end within <see cref="OutputBufferOptions.SendTimeout"/>. Must not change.
    /// </summary>
    int MaxSendBytes => int.MaxValue;

    /// <summary>Which receivers get a handle's output; those of all nodes by default. While some take nothing (<see cref="BatchOutcome.Busy"/>), only output that none of them gets is sent.</summary>
    /// <remarks>It is called under a lock of the buffer: return at once, don't throw, and don't use the buffer.</remarks>
    /// <param name="handle">The handle. The answer must not change.</param>
    FrameDestination GetDestination(OutputHandle handle) => FrameDestination.All;

    /// <summary>The setting that both limits follow from, for errors: <c>RabbitMqOptions.MaxFrameBytes</c>, for example. Null, the default, when there is none.</summary>
    string? LimitingSetting => null;
}

/// <summary>What a last hop implements when it knows which groups have members on this node: a receiver then asks its broker for the output of these groups only.</summary>
/// <remarks>Implement it only where output for any other named handle has no effect. All members are thread-safe.</remarks>
public interface IGroupMembership
{
    /// <summary>True when the group has members on this node.</summary>
    /// <param name="group">The group's name.</param>
    bool HasMembers(string group);

    /// <summary>The groups that have members on this node.</summary>
    /// <returns>A snapshot of their names.</returns>
    IReadOnlyCollection<string> GetGroups();

    /// <summary>Tells when a group gets its first member, and when it has lost its last one.</summary>
    /// <param name="changed">
    /// Is called with the group's name, after the change and before the send that caused it completes, on any thread and several at once: look at <see cref="HasMembers"/>. It must return at once, and must
    /// not throw.
    /// </param>
    /// <returns>Dispose it to be told no more.</returns>
    IDisposable Watch(Action<string> changed);
}

/// <summary>The outcome of one batch of a send that failed in part.</summary>
public enum BatchOutcome
{
    /// <summary>Not acknowledged: it will be sent again, unchanged. It may have arrived.</summary>
    Unacknowledged = 0,

    /// <summary>The next hop has it.</summary>
    Acknowledged = 1,

    /// <summary>The next hop will never take it (a node that is gone, a bad topic): it has failed and is not sent again.</summary>
    Refused = 2,

    /// <summary>
    /// Not acknowledged, because its receivers take nothing now although the next hop works: a full queue. It will be sent again, unchanged, and before newer output for a receiver of
    /// <see cref="IBatchTransport.GetDestination"/>; meanwhile output for others is sent. No later batch of the send may have reached one of these receivers.
    /// </summary>
    Busy = 3,
}

/// <summary>One message that the next hop will never take, in a batch whose other messages it has.</summary>
/// <param name="Batch">The batch's index in the send, from 0.</param>
/// <param name="Message">The message's index in that batch, from 0.</param>
public readonly record struct MessageRefusal(int Batch, int Message);

/// <summary>A send failed in part. It names the batches that were acknowledged, and the batches and single messages that are refused, so that a bad one never blocks its neighbours.</summary>
/// <param name="outcomes">One for each batch of the send, in its order.</param>
/// <param name="message">What happened, in a human-readable sentence.</param>
/// <param name="innerException">The cause, if there is one.</param>
/// <param name="refusedMessages">The messages of acknowledged batches that are refused; none by default.</param>
public sealed class BatchSendException(
    ImmutableArray<BatchOutcome> outcomes, string message, Exception? innerException = null, ImmutableArray<MessageRefusal> refusedMessages = default)
    : Exception(message, innerException)
{
    /// <summary>One for each batch of the send, in its order. A missing one counts as <see cref="BatchOutcome.Unacknowledged"/>.</summary>
    public ImmutableArray<BatchOutcome> Outcomes { get; } = outcomes.IsDefault ? [] : outcomes;

    /// <summary>
    /// The messages of acknowledged batches that the next hop will never take, in any order; empty by default. They count as failed and are not sent
    /// again; the batch's other messages count as acknowledged.
    /// </summary>
    /// <remarks>An entry whose batch is not <see cref="BatchOutcome.Acknowledged"/>, or that names no message of the send, is ignored; a repeated entry counts once.</remarks>
    public ImmutableArray<MessageRefusal> RefusedMessages { get; } = refusedMessages.IsDefault ? [] : refusedMessages;

    /// <summary>
    /// True when every refused batch was for a connection that has left; false by default. That is normal, because output is under way when clients leave: the batches are counted as
    /// refused, and not logged.
    /// </summary>
    public bool DestinationsAreGone { get; init; }

    /// <summary>What became of one batch of the send, by its index.</summary>
    internal BatchOutcome OutcomeOf(int batch) => batch < Outcomes.Length ? Outcomes[batch] : BatchOutcome.Unacknowledged;
}
