using System.Text;

namespace BatchKit.Postgres.Tests.Rows;

/// <summary>A handler that keeps what it gets, except where the test's script says otherwise.</summary>
internal sealed class RowCollector : IMessageHandler<QueueMessage>
{
    private readonly Lock _gate = new();
    private readonly List<QueueMessage> _messages = [];
    private readonly SemaphoreSlim _arrived = new(initialCount: 0);

    /// <summary>What of a message becomes; it is kept when this says nothing of it. Nothing for all by default.</summary>
    public Action<QueueMessage> Script { get; set; } = static _ => { };

    public IReadOnlyList<QueueMessage> Messages
    {
        get
        {
            lock (_gate)
                return [.. _messages];
        }
    }

    public IEnumerable<string> Texts => Messages.Select(static message => Encoding.UTF8.GetString(message.Payload.Span));

    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
        {
            Script(message);
            if (message.Outcome is not null)
                continue;
            message.Complete();
            lock (_gate)
                _messages.Add(message);
            _arrived.Release();
        }

        return ValueTask.CompletedTask;
    }

    public async Task WaitForMessagesAsync(int count)
    {
        while (Messages.Count < count)
            await _arrived.WaitAsync().WithinDeadline();
    }
}
