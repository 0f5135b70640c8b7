using BatchKit.Benchmarks.Dolist;
using BatchKit.Transports;

namespace BatchKit.Benchmarks.OverBatchKit;

/// <summary>The consumer behind a receiver.</summary>
internal sealed class ArrivalTransport(Arrival arrival) : IBatchTransport
{
    public bool SendsWithoutBlocking => true;

    public ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
    {
        foreach (var batch in batches.Span)
            arrival.Add(batch.Payload.Span);
        return default;
    }
}
