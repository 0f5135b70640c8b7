using System.Text;
using BatchKit.Transports;

namespace BatchKit.Testing;

/// <summary>A last hop that copies every batch that it gets and acknowledges it at once. Every member may be called from any thread.</summary>
/// <param name="sendsWithoutBlocking">The transport's <see cref="IBatchTransport.SendsWithoutBlocking"/>; true by default, so that an idle partition sends on the writer's thread.</param>
/// <param name="maxMessageBytes">The transport's <see cref="IBatchTransport.MaxMessageBytes"/>; no limit by default. Larger messages are collected all the same.</param>
public sealed class CollectingTransport(bool sendsWithoutBlocking = true, int maxMessageBytes = int.MaxValue) : IBatchTransport
{
    // Guards everything below.
    private readonly Lock _lock = new();
    private readonly List<CollectedBatch> _batches = [];
    private readonly List<int> _batchesOfSends = [];
    private TaskCompletionSource _arrived = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _messages;

    /// <inheritdoc/>
    public bool SendsWithoutBlocking { get; } = sendsWithoutBlocking;

    /// <inheritdoc/>
    public int MaxMessageBytes { get; } = maxMessageBytes;

    /// <summary>How many messages have arrived.</summary>
    public long MessageCount
    {
        get
        {
            lock (_lock)
                return _messages;
        }
    }

    /// <summary>The batches that have arrived, in order; a copy.</summary>
    public IReadOnlyList<CollectedBatch> Batches
    {
        get
        {
            lock (_lock)
                return [.. _batches];
        }
    }

    /// <summary>How many batches each send had, in order; a copy.</summary>
    public IReadOnlyList<int> BatchesOfSends
    {
        get
        {
            lock (_lock)
                return [.. _batchesOfSends];
        }
    }

    /// <summary>The messages that have arrived, in order; a copy.</summary>
    public IReadOnlyList<CollectedMessage> Messages => [.. Batches.SelectMany(static batch => batch.Messages)];

    /// <summary>The payloads of the messages that have arrived, as UTF-8, in order.</summary>
    public IReadOnlyList<string> Texts => [.. Messages.Select(static message => message.Text)];

    /// <inheritdoc/>
    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        cancellationToken.ThrowIfCancellationRequested();
        TaskCompletionSource arrived;
        lock (_lock)
        {
            foreach (var batch in batches.Span)
            {
                _batches.Add(Copy(batch));
                _messages += batch.Count;
            }

            _batchesOfSends.Add(batches.Length);
            arrived = _arrived;
            _arrived = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        arrived.SetResult();
        return ValueTask.CompletedTask;
    }

    /// <summary>The messages for one handle that have arrived, in order.</summary>
    /// <param name="handle">The destination.</param>
    public IReadOnlyList<CollectedMessage> MessagesFor(OutputHandle handle) =>
        [.. Batches.Where(batch => batch.Handle == handle).SelectMany(static batch => batch.Messages)];

    /// <summary>The payloads of the messages for one handle that have arrived, as UTF-8, in order.</summary>
    /// <param name="handle">The destination.</param>
    public IReadOnlyList<string> TextsFor(OutputHandle handle) => [.. MessagesFor(handle).Select(static message => message.Text)];

    /// <summary>Completes once this many messages have arrived, for all handles together.</summary>
    /// <param name="count">How many, counted from the start.</param>
    /// <exception cref="TimeoutException">No further message arrived for a minute; the exception's message says how many there are.</exception>
    public Task WaitForMessagesAsync(long count) => WaitAsync(() => _messages, count);

    /// <summary>Completes once this many messages have arrived for one handle.</summary>
    /// <param name="handle">The destination.</param>
    /// <param name="count">How many, counted from the start.</param>
    /// <inheritdoc cref="WaitForMessagesAsync(long)" path="/exception"/>
    public Task WaitForMessagesAsync(OutputHandle handle, long count) =>
        WaitAsync(() => _batches.Where(batch => batch.Handle == handle).Sum(static batch => batch.Messages.Count), count);

    private async Task WaitAsync(Func<long> countArrived, long count)
    {
        while (true)
        {
            Task arrived;
            long messages;
            lock (_lock)
            {
                messages = countArrived();
                arrived = _arrived.Task;
            }

            if (messages >= count)
                return;
            if (await Task.WhenAny(arrived, Task.Delay(Deadline.Time, TimeProvider.System)).ConfigureAwait(false) != arrived)
                throw new TimeoutException($"{messages} of {count} messages arrived before the deadline.");
        }
    }

    private static CollectedBatch Copy(MessageBatch batch)
    {
        var messages = new CollectedMessage[batch.Count];
        for (var index = 0; index < messages.Length; index++)
            messages[index] = new CollectedMessage(batch.Handle, batch[index].Payload.ToArray(), batch[index].Header);
        return new CollectedBatch(batch.Handle, batch.Producer, batch.Number, messages);
    }
}

/// <summary>A copy of a batch that arrived.</summary>
/// <param name="Handle">The destination.</param>
/// <param name="Producer">The producer that numbered it.</param>
/// <param name="Number">Its number.</param>
/// <param name="Messages">Its messages, in order.</param>
public sealed record CollectedBatch(OutputHandle Handle, ProducerId Producer, long Number, IReadOnlyList<CollectedMessage> Messages);

/// <summary>A copy of a message that arrived.</summary>
/// <param name="Handle">The destination.</param>
/// <param name="Payload">Its bytes.</param>
/// <param name="Header">Its header; null for a plain message.</param>
public sealed record CollectedMessage(OutputHandle Handle, byte[] Payload, MessageHeader? Header)
{
    /// <summary>The payload as UTF-8.</summary>
    public string Text => Encoding.UTF8.GetString(Payload);

    /// <summary>The header's kind; output for a plain message.</summary>
    public MessageKind Kind => Header?.Kind ?? MessageKind.Output;
}
