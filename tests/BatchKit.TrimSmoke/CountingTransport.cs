using BatchKit.Transports;

namespace BatchKit.TrimSmoke;

/// <summary>Counts what arrives.</summary>
internal sealed class CountingTransport : IBatchTransport
{
    private int _batches;
    private int _messages;

    public int Batches => Volatile.Read(ref _batches);

    public int Messages => Volatile.Read(ref _messages);

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
        {
            Interlocked.Increment(ref _batches);
            Interlocked.Add(ref _messages, batch.Count);
        }

        return ValueTask.CompletedTask;
    }
}
