using System.Collections;

namespace BatchKit.Postgres;

/// <summary>Handles the messages of a queue, a batch at a time.</summary>
/// <remarks>A receiver calls it from several tasks at once, as many as <see cref="PostgresQueueReceiverOptions.Concurrency"/>.</remarks>
public interface IQueueHandler
{
    /// <summary>Handles a batch, and says of each message what became of it; a message that nothing was said of is done when the task completes.</summary>
    /// <remarks>
    /// When it throws, the messages that nothing was said of have failed: they are handled again after a pause, each alone, so that one bad message does not take its neighbours with it. A message
    /// may be handled more than once, after a crash or a claim that ended: delivery is at least once, completion is once.
    /// </remarks>
    /// <param name="batch">At least one message, in order; valid until the task has ended.</param>
    /// <param name="cancellationToken">Cancelled when the claim was lost, or the receiver has stopped waiting: stop, because others may have the messages.</param>
    ValueTask HandleAsync(QueueBatch batch, CancellationToken cancellationToken);
}

/// <summary>Messages of one queue that were claimed together, in order.</summary>
/// <remarks>Valid while it is being handled; one thread at a time.</remarks>
public sealed class QueueBatch : IReadOnlyList<QueueMessage>
{
    private readonly QueueMessage[] _messages;

    internal QueueBatch(string queue, QueueMessage[] messages)
    {
        Queue = queue;
        _messages = messages;
    }

    /// <summary>The queue's name.</summary>
    public string Queue { get; }

    /// <summary>How many messages it has; at least one.</summary>
    public int Count => _messages.Length;

    /// <summary>One message.</summary>
    /// <param name="index">From 0 to <see cref="Count"/> - 1.</param>
    public QueueMessage this[int index] => _messages[index];

    /// <summary>Goes through the messages in order.</summary>
    public IEnumerator<QueueMessage> GetEnumerator() => ((IEnumerable<QueueMessage>)_messages).GetEnumerator();

    IEnumerator IEnumerable.GetEnumerator() => _messages.GetEnumerator();
}
