using System.Collections.Immutable;

namespace BatchKit.Transports;

/// <summary>A send failed in part: names which batches were acknowledged and which are refused for good, so that one bad batch never blocks its neighbours.</summary>
/// <param name="outcomes">One for each batch of the send, in its order.</param>
/// <param name="message">What happened, for a person.</param>
/// <param name="innerException">The cause, where there is one.</param>
public sealed class BatchSendException(ImmutableArray<BatchOutcome> outcomes, string message, Exception? innerException = null)
    : Exception(message, innerException)
{
    /// <summary>One for each batch of the send, in its order. A missing one counts as <see cref="BatchOutcome.Unacknowledged"/>.</summary>
    public ImmutableArray<BatchOutcome> Outcomes { get; } = outcomes.IsDefault ? [] : outcomes;
}
