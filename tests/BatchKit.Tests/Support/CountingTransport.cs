using BatchKit.Transports;

namespace BatchKit.Tests.Support;

/// <summary>A hop that completes at once and only counts, so that it allocates nothing itself.</summary>
internal sealed class CountingTransport : IBatchTransport
{
    private long _batches;
    private long _messages;

    public bool SendsWithoutBlocking => true;

    public long Batches => Volatile.Read(ref _batches);

    public long Messages => Volatile.Read(ref _messages);

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        Interlocked.Add(ref _batches, batches.Length);
        foreach (var batch in batches.Span)
            Interlocked.Add(ref _messages, batch.Count);
        return ValueTask.CompletedTask;
    }
}
