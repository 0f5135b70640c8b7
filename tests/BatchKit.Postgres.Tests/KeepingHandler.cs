using System.Collections.Concurrent;
using System.Text;

namespace BatchKit.Postgres.Tests;

/// <summary>Keeps the texts of what it is given.</summary>
internal sealed class KeepingHandler : IMessageHandler<QueueMessage>
{
    private readonly ConcurrentQueue<string> _texts = new();
    private readonly SemaphoreSlim _handled = new(initialCount: 0);

    public IEnumerable<string> Texts => _texts;

    public ValueTask HandleAsync(IReadOnlyList<QueueMessage> batch, CancellationToken cancellationToken)
    {
        foreach (var message in batch)
            _texts.Enqueue(Encoding.UTF8.GetString(message.Payload.Span));
        _handled.Release(batch.Count);
        return ValueTask.CompletedTask;
    }

    public async Task WaitForAsync(int messages)
    {
        for (var message = 0; message < messages; message++)
            await _handled.WaitAsync().WithinDeadline();
    }
}
