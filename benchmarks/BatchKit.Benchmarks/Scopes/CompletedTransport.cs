using BatchKit.Transports;

namespace BatchKit.Benchmarks.Scopes;

/// <summary>A next hop that has everything at once, so that a benchmark sees the core alone.</summary>
internal sealed class CompletedTransport : IBatchTransport
{
    public bool SendsWithoutBlocking => true;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken) => default;
}
