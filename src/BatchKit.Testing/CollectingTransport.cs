using System.Text;
using BatchKit.Transports;

namespace BatchKit.Testing;

/// <summary>A last hop that copies what it gets and completes at once.</summary>
/// <param name="sendsWithoutBlocking">What it declares.</param>
/// <param name="maxMessageBytes">What it declares.</param>
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

    /// <summary>How many messages arrived.</summary>
    public long MessageCount
    {
        get
        {
            lock (_lock)
                return _messages;
        }
    }

    /// <summary>All batches, in the order of arrival.</summary>
    public IReadOnlyList<CollectedBatch> Batches
    {
        get
        {
            lock (_lock)
                return [.. _batches];
        }
    }

    /// <summary>How many batches each send had, in order.</summary>
    public IReadOnlyList<int> BatchesOfSends
    {
        get
        {
            lock (_lock)
                return [.. _batchesOfSends];
        }
    }

    /// <summary>All messages, in the order of arrival.</summary>
    public IReadOnlyList<CollectedMessage> Messages => [.. Batches.SelectMany(batch => batch.Messages)];

    /// <summary>The texts of all messages, in the order of arrival.</summary>
    public IReadOnlyList<string> Texts => [.. Messages.Select(message => message.Text)];

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

    /// <summary>The messages for one handle, in the order of arrival.</summary>
    public IReadOnlyList<CollectedMessage> MessagesFor(OutputHandle handle) =>
        [.. Batches.Where(batch => batch.Handle == handle).SelectMany(batch => batch.Messages)];

    /// <summary>The texts of the messages for one handle, in the order of arrival.</summary>
    public IReadOnlyList<string> TextsFor(OutputHandle handle) => [.. MessagesFor(handle).Select(message => message.Text)];

    /// <summary>Completes once so many messages have arrived in all; throws at a test's deadline, saying how many did.</summary>
    public Task WaitForMessagesAsync(long count) => WaitAsync(() => _messages, count);

    /// <summary>The same for one handle, where others get messages too.</summary>
    public Task WaitForMessagesAsync(OutputHandle handle, long count) => WaitAsync(() => _batches.Where(batch => batch.Handle == handle).Sum(batch => batch.Messages.Count), count);

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

/// <summary>A batch as it arrived, copied.</summary>
/// <param name="Handle">Where it goes.</param>
/// <param name="Producer">Who numbered it.</param>
/// <param name="Number">Its number.</param>
/// <param name="Messages">Its messages, in order.</param>
public sealed record CollectedBatch(OutputHandle Handle, ProducerId Producer, long Number, IReadOnlyList<CollectedMessage> Messages);

/// <summary>A message as it arrived, copied.</summary>
/// <param name="Handle">Where it goes.</param>
/// <param name="Payload">Its bytes.</param>
/// <param name="Header">What it says about itself; null for a plain one.</param>
public sealed record CollectedMessage(OutputHandle Handle, byte[] Payload, MessageHeader? Header)
{
    /// <summary>Its bytes as UTF-8.</summary>
    public string Text => Encoding.UTF8.GetString(Payload);

    /// <summary>What it is for.</summary>
    public MessageKind Kind => Header?.Kind ?? MessageKind.Output;
}
