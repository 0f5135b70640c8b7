using System.Collections;

namespace BatchKit.Postgres;

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
