using System.Collections;

namespace BatchKit.Postgres;

/// <summary>Handles the messages of a queue in batches.</summary>
/// <remarks>A receiver calls it concurrently, up to <see cref="PostgresQueueReceiverOptions.Concurrency"/> times.</remarks>
public interface IQueueHandler
{
    /// <summary>Handles a batch, and may mark each message; a message that it does not mark is completed when the task completes.</summary>
    /// <remarks>
    /// When it throws, the messages that it has not marked are retried after a pause, each in a batch of its own, so that one bad message does not fail its neighbours again. A message may be handled
    /// more than once, after a crash or when its claim ended: delivery is at least once, completion is once.
    /// </remarks>
    /// <param name="batch">At least one message, in order; valid until the task completes.</param>
    /// <param name="cancellationToken">Cancelled when the claim was lost, or a stopping receiver no longer waits. Stop then, because another worker may have the messages.</param>
    ValueTask HandleAsync(QueueBatch batch, CancellationToken cancellationToken);
}

/// <summary>Messages of one queue that were claimed together, in order.</summary>
/// <remarks>Valid while the handler runs. Not thread-safe.</remarks>
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

    /// <summary>The number of messages; at least one.</summary>
    public int Count => _messages.Length;

    /// <summary>Gets a message.</summary>
    /// <param name="index">From 0 to <see cref="Count"/> - 1.</param>
    public QueueMessage this[int index] => _messages[index];

    /// <summary>Returns the messages for the handler; null when there are none.</summary>
    internal QueueBatch? WithoutWithheld()
    {
        if (!Array.Exists(_messages, static message => message.IsWithheld))
            return this;
        var rest = Array.FindAll(_messages, static message => !message.IsWithheld);
        return rest.Length == 0 ? null : new QueueBatch(Queue, rest);
    }

    /// <summary>Enumerates the messages in order.</summary>
    public IEnumerator<QueueMessage> GetEnumerator() => ((IEnumerable<QueueMessage>)_messages).GetEnumerator();

    IEnumerator IEnumerable.GetEnumerator() => _messages.GetEnumerator();
}
