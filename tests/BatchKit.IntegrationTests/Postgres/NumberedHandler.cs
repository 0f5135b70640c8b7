using System.Buffers.Text;
using BatchKit.Postgres;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>Handles messages that begin with a number, and remembers how often each was handled and under which ids.</summary>
internal sealed class NumberedHandler : IMessageHandler<QueueMessage>
{
    // Guards everything below.
    private readonly Lock _lock = new();
    private readonly Dictionary<long, long> _ids = [];
    private readonly HashSet<long> _storedTwice = [];
    private TaskCompletionSource _handled = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private long _handlings;

    /// <summary>What a handling waits for before anything else; nothing by default.</summary>
    public Task Gate { get; set; } = Task.CompletedTask;

    /// <summary>How many different messages were handled.</summary>
    public int Count => Read(() => _ids.Count);

    /// <summary>How many handlings there were.</summary>
    public long Handlings => Read(() => _handlings);

    /// <summary>Messages that were stored more than once: the same number under several ids.</summary>
    public IReadOnlyCollection<long> StoredTwice => Read(() => _storedTwice.ToArray());

    /// <summary>The latest that a message was handled after it was enqueued, both on this machine's clock.</summary>
    public TimeSpan Slowest { get; private set; }

    public async ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        await Gate;
        TaskCompletionSource handled;
        lock (_lock)
        {
            foreach (var message in batch)
                Take(message);
            handled = _handled;
            _handled = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        }

        handled.SetResult();
    }

    /// <summary>Waits until so many different messages were handled; each further one puts the deadline off.</summary>
    public async Task WaitForCountAsync(long count)
    {
        for (var counted = Count; counted < count; counted = Count)
        {
            var handled = Read(() => _handled.Task);
            if (Count == counted && await Task.WhenAny(handled, Task.Delay(Deadline.Time)) != handled)
                throw new TimeoutException($"{counted} of {count} messages were handled, and then no more before the deadline.");
        }
    }

    private void Take(QueueMessage message)
    {
        if (!Utf8Parser.TryParse(message.Payload.Span, out long number, out _))
            throw new InvalidDataException("A message has no number.");
        _handlings++;
        if (!_ids.TryAdd(number, message.Id) && _ids[number] != message.Id)
            _storedTwice.Add(number);
        var age = DateTimeOffset.UtcNow - message.EnqueuedAt;
        if (age > Slowest)
            Slowest = age;
    }

    private T Read<T>(Func<T> read)
    {
        lock (_lock)
            return read();
    }
}
